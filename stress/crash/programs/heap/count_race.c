/* count_race.c: two threads drop the last two references to a picture. Each sees that none is left, which a barrier
 * makes certain, and each frees it. */
// expect: library=release cause=double_free grade=found
// expect: library=validate cause=double_free grade=found seconds=10
#include "../program.h"

struct picture {
    int references;
    uint64_t *pixels;
    char rest[64];
};

static pthread_barrier_t both_have_counted;

PLAINLY static void release(struct picture *picture)
{
    int left = __atomic_sub_fetch(&picture->references, 1, __ATOMIC_SEQ_CST);
    pthread_barrier_wait(&both_have_counted);
    left = __atomic_load_n(&picture->references, __ATOMIC_SEQ_CST) < left ? 0 : left;
    pthread_barrier_wait(&both_have_counted);
    if (left == 0) free(picture); /* guilty */
}

static void *release_in_thread(void *picture)
{
    release((struct picture *)picture);
    return NULL;
}

PLAINLY static struct picture *picture_make(void)
{
    static uint64_t pixels;
    struct picture *picture = (struct picture *)need(malloc(sizeof *picture));
    picture->references = 2;
    picture->pixels = &pixels;
    return picture;
}

PLAINLY static char *text_make(void)
{
    char *text = (char *)need(malloc(sizeof(struct picture)));
    memset(text, 'x', sizeof(struct picture));
    return text;
}

PLAINLY static uint64_t first_pixel(const struct picture *picture)
{
    return *picture->pixels;
}

int main(void)
{
    enum { TEXTS = 3000 };
    pthread_t thread;
    earlier_owners(sizeof(struct picture));
    pthread_barrier_init(&both_have_counted, NULL, 2);
    struct picture *picture = picture_make();
    if (pthread_create(&thread, NULL, release_in_thread, picture) != 0) return 3;
    release(picture);
    pthread_join(thread, NULL);
    picture = picture_make();
    for (int i = 0; i < TEXTS; i++)
        if (text_make()[0] != 'x') return 5;
    return first_pixel(picture) == 0 ? 4 : 5;
}
