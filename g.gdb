handle SIGUSR1 SIGUSR2 SIG34 SIG33 SIGURG SIGWINCH nostop noprint pass
handle SIGSEGV stop print
run
bt 14
p $_siginfo._sifields._sigfault
info registers rsp rip
info proc mappings
