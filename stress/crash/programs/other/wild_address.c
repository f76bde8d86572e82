/* wild_address.c: reads a device's registers at an address that is right only on another machine. */
// expect: library=both cause=wild_read,wild_write,bad_value_stored grade=found
#include "../program.h"

struct registers {
    volatile uint32_t status, control;
};

struct device {
    char name[16];
    struct registers *registers;
    char rest[40];
};

static volatile uintptr_t base_address = 0xfee00000;

PLAINLY static void use_memory(struct device *device)
{
    device->registers = (struct registers *)need(calloc(1, sizeof *device->registers));
}

PLAINLY static void use_address(struct device *device, uintptr_t address)
{
    device->registers = (struct registers *)address; /* guilty */
}

PLAINLY static uint32_t read_status(const struct device *device)
{
    return device->registers->status; /* also guilty */
}

int main(void)
{
    earlier_owners(sizeof(struct device));
    struct device *device = (struct device *)need(calloc(1, sizeof *device));
    use_memory(device);
    uint32_t before = read_status(device);
    use_address(device, base_address);
    return read_status(device) == before ? 4 : 5;
}
