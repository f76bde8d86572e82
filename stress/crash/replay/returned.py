"""Follows a value into the function that returned it: a part of analyse.Analysis."""

from judge import SMALL
from launch import NotFound
from verdict import LIKELY


class Returned:
    def of_result(self, of, hit, cell, bound=None):
        """The verdict on a value that a function of the program returned. of: see Rerun.returned; hit: the store of
        the value; None: it was not returned, or only that is known."""
        if not of.get("returns") or not hasattr(self.tracer, "returned"):
            return None
        about, hits = dict(self.about), list(self.hits)
        try:
            seen = self.tracer.returned(of, cell if of is hit else None, bound)
            if seen is None:
                return None
            origin, value = seen["origin"], cell["value"]
            if origin.get("ambiguous"):
                return None
            self.say(f"it was returned by {origin['function'] or 'a function'}: {origin['asm']}")
            if origin["kind"] == "load" and origin.get("cell"):
                return self.as_returned(self.trace(origin["cell"], seen), seen, hit)
            if origin["kind"] == "call":
                return self.of_result({**seen, "returns": origin["returns"]}, hit, cell)
            by = self.judge.culprit(seen["stack"])
            if origin["kind"] == "constant" and by is not None:
                cause = "null_returned" if value < SMALL else "bad_value_returned"
                what = "NULL" if value == 0 else f"{value:#x}"
                user = self.judge.culprit(hit["stack"]) if hit else self.user
                return self.make(
                    LIKELY,
                    cause,
                    by,
                    f"it returned {what}, which was used as a pointer later",
                    seen["stack"],
                    alternatives=[(user, "it used what was returned, without a check")],
                )
        except NotFound as reason:
            self.say(f"not further: {reason}")
        self.about, self.hits = about, hits
        return None

    def as_returned(self, verdict, seen, hit):
        """Without optimisation a function stores in a local variable what it then returns. That is no more its fault than a
        constant that it returns."""
        by, there = self.judge.culprit(seen["stack"]) or {}, verdict["culprit"] or {}
        is_own = (by.get("function"), by.get("module")) == (there.get("function"), there.get("module"))
        is_local = self.frame_at(seen["frames"][:1], seen["origin"]["cell"]["address"]) is not None
        if verdict["cause"] not in ("null_stored", "bad_value_stored") or not is_own or not is_local:
            return verdict
        return {
            **verdict,
            "grade": LIKELY,
            "cause": "null_returned" if verdict["cause"] == "null_stored" else "bad_value_returned",
            "alternatives": [
                *verdict["alternatives"],
                (self.judge.culprit(hit["stack"]) if hit else self.user, "it used what was returned, without a check"),
            ],
        }
