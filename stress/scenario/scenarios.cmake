# The scenarios of registry.cc in its order, each with the number of ops that takes about one second with four OS
# threads on two cores. The test stress.list fails if the two lists differ.
set(STRESS_SCENARIOS
  larson:4000000
  random-mixed:6000000
  remote-free:3000000
  mid:1500000
  large:12000
  huge:1500
  patterns:4000000
  realloc-walk:500000
  aligned:500000
  calloc:250000
  fragmentation:5000000
  purge-cycle:15000
  false-sharing:6000000
  thread-churn:150000
  tls-destructors:60000
  cancellation:100000
  small-stack:60000
  fork:12000
  signals:200000
  oom:12000
  dlopen:80000
  heaps:60000
  profile:100000
  idle:49160
  limit:12000)
