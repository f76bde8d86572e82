/* void *stress_fiber_switch(void **saved, void *stack): saves what a call keeps on the running stack and its pointer in
 * *saved, and goes on where `stack` was saved. A new stack holds six words of any value and an address to begin at. */
    .text
    .globl stress_fiber_switch
    .type stress_fiber_switch, @function
stress_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size stress_fiber_switch, . - stress_fiber_switch
    .section .note.GNU-stack, "", @progbits
