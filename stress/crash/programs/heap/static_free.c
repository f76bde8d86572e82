/* static_free.c: all settings are freed; one still has its default, which is not a block. */
// expect: library=validate cause=bad_free grade=found seconds=10
#include "../program.h"

static char default_name[] = "nobody";

struct setting {
    char *name;
    uint64_t value;
};

PLAINLY static void setting_start(struct setting *setting)
{
    setting->name = default_name; /* also guilty */
    setting->value = 0;
}

PLAINLY static void setting_name(struct setting *setting, const char *name)
{
    setting->name = copy_text(name);
}

PLAINLY static void setting_end(struct setting *setting)
{
    free(setting->name); /* guilty */
}

int main(void)
{
    earlier_owners(16);
    struct setting *settings = (struct setting *)need(calloc(4, sizeof *settings));
    for (int i = 0; i < 4; i++) setting_start(&settings[i]);
    for (int i = 0; i < 3; i++) setting_name(&settings[i], "somebody");
    for (int i = 0; i < 4; i++) setting_end(&settings[i]);
    return 4;
}
