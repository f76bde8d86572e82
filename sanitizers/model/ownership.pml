/* ownership.pml: a model for spin of who owns a slab and its blocks: the protocol of alloc/slab/remote.c, owner.c and
 * slab.c. The model is sequentially consistent; the litmus tests (alloc/litmus) check weaker orders. Each access of
 * those files to a word that threads share is one step here. The work that a thread does alone is one step too.
 *
 * One heap, SLABS slabs of BLOCKS blocks each. Three threads: thread 1 holds the heap at first, 2 and 3 free its
 * blocks. The thread that holds the heap hands out blocks, drains, and may end (remote_abandon). Thread 3 may then
 * adopt the orphan, and thread 1 again; thread 2 only posts.
 *
 * Rules are named after the laws of alloc/README.md: LAW(n, ...) prints n in spin's report.
 *   1  a block is in one place; used + free = all
 *   2  posted = drained + pending; a slab with pending blocks is queued, once; at rest an orphan's queue is empty
 *   3  a slab is released only when no block is in use, and no thread posts to a slab that was released
 *   4  a heap is held by one thread, or its bit is set
 *
 * The switches BUG_ below plant bugs. Each must yield an error; sanitizers/model/check tries them all. -D sets the
 * sizes: SLABS, BLOCKS, ALLOCS (how many blocks are handed out a second time), EXITS (how often the heap is left
 * behind). */

#ifndef SLABS
#define SLABS 1
#endif
#ifndef BLOCKS
#define BLOCKS 3
#endif
#ifndef ALLOCS
#define ALLOCS 1
#endif
#ifndef EXITS
#define EXITS 2
#endif
#define ALL (SLABS * BLOCKS)
#define THREADS 3
#define SLAB_OF(b) (((b) - 1) / BLOCKS)
#define LAW(n, held) assert(n && (held))

/* Blocks count from 1; 0 is NULL. */
byte next_of[ALL + 1];      /* block->next */
byte batch_tail[ALL + 1];   /* block->batch_tail, of the first block of a posted batch */

/* struct slab. The remote word is head, count and QUEUED: always changed as one. */
byte word_head[SLABS], word_count[SLABS];
bool word_queued[SLABS];
byte next_pending[SLABS];   /* slab + 1 */
byte free_list[SLABS], used[SLABS];
bool in_use[SLABS];         /* its pages are claimed */

byte pending;               /* owner->pending: slab + 1 */
bool orphan;                /* the heap's bit in the orphan map */

/* Not in the code: facts that the laws speak of. */
byte holder = 1;            /* the thread that holds the heap */
byte live_of[ALL + 1];      /* the thread that has the block, live */
bool queued_now[SLABS];     /* the slab is on the owner's queue */
byte allocs = ALLOCS, exits = EXITS;
bool ended[THREADS + 1];
byte ended_count;

#define WORD_IS(s, h, c, q) (word_head[s] == h && word_count[s] == c && word_queued[s] == q)

/* --- the holder: slab.c ---------------------------------------------------------------------------------------- */

/* slab_returned: count blocks have come back. In the code at most one empty slab stays; here it may stay or go. */
inline slab_returned(s, count)
{
    LAW(1, used[s] >= count);
    used[s] = used[s] - count;
    if
#ifdef BUG_GIVE_BACK_IN_USE
    :: used[s] <= 1 -> slab_release(s)
#else
    :: used[s] == 0 -> slab_release(s)
#endif
    :: true
    fi
}

/* slab_release: the pages go to the pool, and the thread that claims them makes a new slab of them. */
inline slab_release(s)
{
    b = 1;
    do
    :: b <= ALL ->
        LAW(3, SLAB_OF(b) != s || live_of[b] == 0);
        b++
    :: else -> break
    od;
    LAW(3, used[s] == 0 && word_head[s] == 0 && !word_queued[s] && !queued_now[s]);
    in_use[s] = false;
    free_list[s] = 0
}

/* slab_make, and carving all of it: the pool may hand out pages that were released. */
inline slab_make(s)
{
    in_use[s] = true;
    used[s] = 0;
    word_head[s] = 0; word_count[s] = 0; word_queued[s] = false;
    b = s * BLOCKS + 1;
    free_list[s] = b;
    do
    :: SLAB_OF(b) == s && b < (s + 1) * BLOCKS -> next_of[b] = b + 1; b++
    :: else -> next_of[b] = 0; break
    od
}

/* slab_give_back_list: batches_tail finds the end by the batches. The code trusts the length; here a law checks it. */
inline slab_give_back_list(s, head, count)
{
    b = head; n = 0;
    do
    :: b != 0 ->
        LAW(1, SLAB_OF(b) == s && live_of[b] == 0 && n <= BLOCKS);
        n++; b = next_of[b]
    :: else -> break
    od;
    LAW(2, n == count);
    if
    :: count == 0
    :: else ->
        if
        :: free_list[s] != 0 ->
            b = head;
            do
            :: next_of[batch_tail[b]] != 0 -> b = next_of[batch_tail[b]]
            :: else -> break
            od;
            next_of[batch_tail[b]] = free_list[s]
        :: else
        fi;
        free_list[s] = head;
        slab_returned(s, count)
    fi
}

/* --- the holder: remote_drain ----------------------------------------------------------------------------------- */

inline remote_drain(me)
{
    LAW(4, holder == me);
#ifdef BUG_QUEUE_STORE
    slab = pending;
    pending = 0;
    d_step { s = 0; do :: s < SLABS -> queued_now[s] = false; s++ :: else -> break od }
#else
    /* atomic_exchange of owner->pending. The slabs on the queue now leave it one by one. */
    d_step { slab = pending; pending = 0 }
#endif
    do
    :: slab != 0 ->
        s = slab - 1;
#ifndef BUG_NEXT_READ_LATE
        next = next_pending[s];
#endif
#ifdef BUG_DRAIN_STORE
        d_step { head = word_head[s]; count = word_count[s] }
        d_step { word_head[s] = 0; word_count[s] = 0; word_queued[s] = false; queued_now[s] = false }
#else
        d_step { /* atomic_exchange of slab->remote: from here the slab may be queued again */
            head = word_head[s]; count = word_count[s];
            word_head[s] = 0; word_count[s] = 0;
#ifndef BUG_QUEUED_BIT_STAYS
            word_queued[s] = false;
#endif
            LAW(2, queued_now[s]);
            queued_now[s] = false
        }
#endif
#ifdef BUG_NEXT_READ_LATE
        next = next_pending[s];
#endif
        atomic { LAW(3, in_use[s]); LAW(4, holder == me); slab_give_back_list(s, head, count) }
        slab = next
    :: else -> break
    od;
    slab = 0; s = 0; next = 0; head = 0; count = 0; b = 0; n = 0
}

/* --- orphans: owner.c --------------------------------------------------------------------------------------------- */

/* take: fetch_and of the orphan map. */
inline take(me, taken)
{
#ifdef BUG_ADOPT_STORE
    taken = orphan;
    orphan = false;
    if :: taken -> LAW(4, holder == 0); holder = me :: else fi
#else
    d_step {
        taken = orphan;
        orphan = false;
        if :: taken -> LAW(4, holder == 0); holder = me :: else fi
    }
#endif
}

/* remote_abandon: drain, then owner_abandon until nothing is pending. */
inline remote_abandon(me)
{
    do
    :: true ->
        remote_drain(me);
#ifdef BUG_LOOKS_BEFORE_BIT
        seen = pending;
        d_step { LAW(4, holder == me && !orphan); orphan = true; holder = 0 }
#else
        d_step { LAW(4, holder == me && !orphan); orphan = true; holder = 0 } /* fetch_or */
        seen = pending;
#endif
        if
        :: seen == 0 -> break
        :: else ->
            seen = 0;
#ifdef BUG_ABANDON_TRUSTS
            break;
#endif
            take(me, taken);
            if
            :: !taken -> break /* another thread took the owner, and drains it */
            :: else
            fi
        fi
    od;
    seen = 0; taken = false
}

inline remote_drain_orphan(me)
{
    taken = orphan; /* owner_is_orphan */
    if
    :: taken ->
        take(me, taken);
        if
        :: taken -> remote_drain(me); remote_abandon(me)
        :: else
        fi
    :: else
    fi;
    taken = false
}

/* --- any thread: remote_post ------------------------------------------------------------------------------------- */

/* pending_push */
inline pending_push(s)
{
    next = pending;
    do
    :: true ->
        next_pending[s] = next;
#ifdef BUG_QUEUE_STORE
        pending = s + 1;
        queued_now[s] = true;
        break
#else
        if
        :: atomic { pending == next -> LAW(2, !queued_now[s]); queued_now[s] = true; pending = s + 1; break }
        :: atomic { pending != next -> next = pending }
        fi
#endif
    od;
    next = 0
}

/* Posts the stage: stage_head to stage_tail, stage_count blocks of slab stage_slab. */
inline remote_post(me)
{
    d_step {
        LAW(3, in_use[stage_slab]);
        head = word_head[stage_slab]; count = word_count[stage_slab]; queued = word_queued[stage_slab];
        batch_tail[stage_head] = stage_tail
    }
    do
    :: true ->
        next_of[stage_tail] = head;
#ifdef BUG_PUSH_STORE
        d_step {
            word_head[stage_slab] = stage_head; word_count[stage_slab] = count + stage_count;
            word_queued[stage_slab] = true
        }
        break
#else
        if
        :: atomic {
            WORD_IS(stage_slab, head, count, queued) ->
            LAW(3, in_use[stage_slab]);
            word_head[stage_slab] = stage_head; word_count[stage_slab] = count + stage_count;
#ifndef BUG_LOST_QUEUED_BIT
            word_queued[stage_slab] = true;
#endif
            break
            }
        :: atomic {
            !WORD_IS(stage_slab, head, count, queued) ->
            head = word_head[stage_slab]; count = word_count[stage_slab]; queued = word_queued[stage_slab]
            }
        fi
#endif
    od;
    atomic { head = 0; count = 0; stage_head = 0; stage_tail = 0; stage_count = 0 }
    if
    :: queued -> queued = false /* the slab is on the queue already */
    :: else ->
#ifdef BUG_POSTER_LOOKS_FIRST
        was_orphan = orphan;
        pending_push(stage_slab);
        if :: was_orphan -> remote_drain_orphan(me) :: else fi;
        was_orphan = false
#else
        pending_push(stage_slab);
#ifndef BUG_POSTER_LEAVES
        remote_drain_orphan(me)
#endif
#endif
    fi;
    stage_slab = 0
}

/* --- threads ------------------------------------------------------------------------------------------------------ */

inline hand_out(block)
{
    if
    :: live_of[block] = 1
    :: !ended[2] -> live_of[block] = 2
    :: !ended[3] -> live_of[block] = 3
    fi
}

proctype thread(byte me; bool may_adopt)
{
    byte slab, s, next, head, count, b, n, seen;
    byte stage_head, stage_tail, stage_count, stage_slab;
    bool queued, taken, was_orphan;

    do
    /* malloc, by the holder: a new slab, or a block of a free list, which goes to any thread. */
    :: atomic { holder == me && allocs > 0 ->
        allocs--;
        select(s : 0 .. SLABS - 1);
        if :: !in_use[s] -> slab_make(s) :: else fi;
        b = free_list[s];
        if
        :: b != 0 ->
            LAW(1, live_of[b] == 0);
            free_list[s] = next_of[b];
            used[s]++;
            if
            :: live_of[b] = me
            :: !ended[2] -> live_of[b] = 2
            :: !ended[3] -> live_of[b] = 3
            fi
        :: else
        fi;
        s = 0; b = 0; n = 0
      }

    /* free, by the holder: the block goes back to its slab. By another thread: staged by slab. */
    :: atomic { true ->
        b = 1;
        do :: b <= ALL && live_of[b] != me -> b++ :: else -> break od;
        if
        :: b <= ALL && holder == me ->
            s = SLAB_OF(b);
            LAW(3, in_use[s]);
            live_of[b] = 0;
            next_of[b] = free_list[s];
            free_list[s] = b;
            slab_returned(s, 1)
        :: b <= ALL && holder != me && (stage_count == 0 || stage_slab == SLAB_OF(b)) ->
            live_of[b] = 0;
            stage_slab = SLAB_OF(b);
            next_of[b] = stage_head;
            if :: stage_count == 0 -> stage_tail = b :: else fi;
            stage_head = b;
            stage_count++
        :: b > ALL || (holder != me && stage_count > 0)
        fi;
        s = 0; b = 0; n = 0
      };
      if
      :: stage_count > 0 -> remote_post(me)
      :: true /* post later, with more blocks */
      fi

    :: holder == me && pending != 0 -> remote_drain(me)

#ifdef BUG_DRAIN_OUTSIDE_QUEUE
    /* Drains one slab's remote word, while the slab is still on the queue. */
    :: holder == me && word_queued[0] ->
        d_step {
            s = 0; head = word_head[s]; count = word_count[s];
            word_head[s] = 0; word_count[s] = 0; word_queued[s] = false
        }
        atomic { slab_give_back_list(s, head, count) }
        d_step { s = 0; head = 0; count = 0; b = 0; n = 0 }
#endif

    /* The thread ends: it posts its stage, then leaves the heap. */
    :: atomic { holder == me && exits > 0 -> exits-- };
        if :: stage_count > 0 -> remote_post(me) :: else fi;
        remote_abandon(me)

    /* The next thread adopts the heap. */
    :: may_adopt && holder != me && orphan -> take(me, taken); taken = false

    :: atomic { true ->
        b = 1;
        do :: b <= ALL && live_of[b] != me -> b++ :: else -> break od;
        if
        :: b > ALL && stage_count == 0 -> b = 0; ended[me] = true; ended_count++; break
        :: else -> b = 0
        fi
      }
    od
}

/* --- at rest ----------------------------------------------------------------------------------------------------- */

init
{
    byte slab, s, next, head, count, b, n;
    atomic {
        s = 0;
        do
        :: s < SLABS -> in_use[s] = true; used[s] = BLOCKS; s++
        :: else -> break
        od;
        b = 1;
        do
        :: b <= ALL -> hand_out(b); b++
        :: else -> break
        od;
        s = 0; b = 0;
        run thread(1, true);
        run thread(2, false);
        run thread(3, true)
    }
    ended_count == THREADS;
    LAW(4, orphan == (holder == 0));
    if
    :: orphan -> LAW(2, pending == 0)
    :: else -> remote_drain(holder)
    fi;
    d_step {
        s = 0;
        do
        :: s < SLABS ->
            LAW(2, word_head[s] == 0 && word_count[s] == 0 && !word_queued[s] && !queued_now[s]);
            n = 0;
            if
            :: in_use[s] ->
                b = free_list[s];
                do
                :: b != 0 ->
                    LAW(1, SLAB_OF(b) == s && live_of[b] == 0 && n < BLOCKS);
                    n++; b = next_of[b]
                :: else -> break
                od;
                LAW(1, used[s] == 0 && n == BLOCKS)
            :: else
            fi;
            s++
        :: else -> break
        od;
        b = 1;
        do
        :: b <= ALL -> LAW(1, live_of[b] == 0); b++
        :: else -> break
        od
    }
}
