"""Several registers may each explain a bad address: a part of analyse.Analysis. Clears those that can be cleared, and
follows the others, one after another."""

import forms
from in_program import HARM
from launch import NotFound
from verdict import FOUND, LIKELY


class Suspects:
    def of_suspects(self, follow):
        """The verdict on the first suspect of the crash that leads to code of the program. follow: judges the crash by
        the suspect that self.crash holds."""
        crash, reason = self.crash, None
        rows = self.not_cleared(crash["suspects"]) or [{}]
        for row in rows:
            self.crash = {**crash, **row}
            self.hits, self.about, self.is_settled, self.is_jump, self.is_guess = ([], {}, True, False, False)
            try:
                return self.of_one(follow(), rows[rows.index(row) + 1 :])
            except NotFound as why:
                if row is not rows[-1]:
                    self.say(f"%{row['name']} leads to none: {why}")
                reason = reason or why
        raise reason

    def of_one(self, verdict, others):
        """A verdict on a suspect if others remain: only `likely`, unless the store did harm, or a NULL was used."""
        is_null = not forms.is_pointer(self.crash["bad"] or 0)
        if verdict["grade"] != FOUND or not others or is_null or verdict["cause"] in (*HARM, "wild_write"):
            return verdict
        more = [(self.user, f"%{row['name']}, which it used too, may be what is wrong") for row in others]
        return {**verdict, "grade": LIKELY, "alternatives": [*verdict["alternatives"], *more]}

    def not_cleared(self, rows):
        """The suspects except those that the same instruction used before with the same value, and did not crash. Of
        those that are equally likely, constants come last: they are rather an index."""
        rows = sorted(rows, key=lambda row: (row["part"], row["origin"]["kind"] in ("constant", "computed")))
        if len(rows) < 2 or not forms.is_address(rows[0]["bad"]):
            return rows
        try:
            ran = self.tracer.held(rows[0]["at"])
        except NotFound as reason:
            self.say(str(reason))
            return rows
        if rows[0]["at"] != self.crash["pc"]:
            ran = ran[:-1]  # the last one led to the crash
        earlier = [held for address, held in ran if address != self.crash["address"]]
        left = [row for row in rows if all(held.get(row["name"]) != row["bad"] for held in earlier)]
        if not left:
            return rows
        for row in rows:
            if row not in left:
                self.say(f"%{row['name']} is right: the instruction used {row['bad']:#x} before")
        return left
