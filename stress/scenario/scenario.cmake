# Runs each scenario on each subject, with a fixed seed: label stress, two minutes in all on two cores.
#   stress.SCENARIO.SUBJECT.os       OS threads, four of them
#   stress.SCENARIO.SUBJECT.os.tN    the classic three, with other numbers of threads
#   stress.SCENARIO.SUBJECT.seeded   under the seeded scheduler
#   stress.SCENARIO.SUBJECT.rounds   five times in one process: what each round leaves behind (judge/remains.h)
#   stress.list                      scenario/scenarios.cmake names what the program lists
# peers.SCENARIO.PEER, label peers, runs each scenario once on another malloc. A suite that only its own allocator
# passes would prove little.

include(scenario/scenarios.cmake)

if(HAKMEM_DIRECT)
  set(STRESS_SUBJECTS hakmem)
elseif(CMAKE_CROSSCOMPILING AND TARGET hakmem-validate)
  set(STRESS_SUBJECTS hakmem validate)
elseif(STRESS_SANITIZED)
  set(STRESS_SUBJECTS system)
elseif(TARGET hakmem_static)
  set(STRESS_SUBJECTS hakmem validate)
else()
  set(STRESS_SUBJECTS system) # the suite was built alone
endif()

# stress_may_skip(NAME): lets the test skip with exit status 77 if it is one of those below, which a run uses to say why
# it can prove nothing here. All other tests fail if they skip. The reasons: seccomp may be refused anywhere; seeded
# signals need sync points, which only the validate build has; heaps of the program's own, a heap profile and a background
# thread are not everywhere, and no time passes under the seeded scheduler; a sanitizer's frames, mappings and malloc are in the way
# of some scenarios.
function(stress_may_skip name)
  if(name MATCHES "\\.oom\\.|\\.signals\\.(hakmem|system)\\.seeded$"
     OR name MATCHES "\\.idle\\..*\\.seeded$|\\.profile\\.validate\\.|\\.(heaps|profile|idle)\\.system"
     OR (HAKMEM_DIRECT AND name MATCHES "\\.(heaps|profile|idle)\\.")
     OR (STRESS_SANITIZED AND name MATCHES "\\.(small-stack|dlopen|limit)\\.|^corpus\\.limit_"))
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  endif()
endfunction()

# stress_command(OUT SUBJECT): the words that begin a run on the subject. Under an emulator a program cannot run itself
# again with the library preloaded, so the emulator preloads it.
function(stress_command out subject)
  set(command hakmem-stress)
  if(CMAKE_CROSSCOMPILING AND NOT HAKMEM_DIRECT AND NOT subject STREQUAL "system")
    string(REPLACE validate hakmem-validate library ${subject})
    set(command ${CMAKE_CROSSCOMPILING_EMULATOR} -E LD_PRELOAD=$<TARGET_FILE:${library}>
      -E HAKMEM_STRESS_SUBJECT=$<TARGET_FILE:${library}> $<TARGET_FILE:hakmem-stress>)
  endif()
  set(${out} ${command} PARENT_SCOPE)
endfunction()

# stress_scenario_test(NAME LABEL SCENARIO --allocator SUBJECT ARGUMENT...): one checked run.
function(stress_scenario_test name label)
  stress_command(command ${ARGV4})
  add_test(NAME ${name} COMMAND ${command} ${ARGN} --seed 42)
  set_tests_properties(${name} PROPERTIES LABELS ${label} TIMEOUT 300)
  if(label STREQUAL "stress" AND scenario MATCHES "^(cancellation|fork|oom|signals)$")
    set_tests_properties(${name} PROPERTIES LABELS "stress;inject") # faults from outside; see inject/tests.cmake
  endif()
  stress_may_skip(${name})
endfunction()

# Runs that measure themselves against the machine's own threads and memory. No other test runs beside them.
function(stress_os_test name label)
  stress_scenario_test(${name} ${label} ${ARGN})
  set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
endfunction()

set(stress_names "")
foreach(entry IN LISTS STRESS_SCENARIOS)
  string(REPLACE ":" ";" entry ${entry})
  list(GET entry 0 scenario)
  list(GET entry 1 ops)
  string(APPEND stress_names "${scenario}\n")
  set(seeded_ops "")
  if(STRESS_SANITIZED) # many times slower
    math(EXPR ops "${ops} / 8 + 100")
    math(EXPR fewer "${ops} / 5 + 100")
    set(seeded_ops --ops ${fewer})
  elseif(scenario STREQUAL "tls-destructors")
    # Its threads warm up for longer than the default of 10000 ops: with seed 42 the peak on validate is 48.7 MiB then,
    # 59.9 at 20000, 64.2 at 40000 and 69.4 at 80000, and the shortest run alone can grow past the plateau's bound.
    set(seeded_ops --ops 20000)
  endif()
  foreach(subject IN LISTS STRESS_SUBJECTS)
    set(name stress.${scenario}.${subject})
    stress_os_test(${name}.os stress ${scenario} --allocator ${subject} --threads 4 --ops ${ops})
    stress_scenario_test(${name}.seeded stress ${scenario} --allocator ${subject} --threads 4 --schedule seeded
      ${seeded_ops})
    if(NOT STRESS_SANITIZED AND NOT scenario STREQUAL "oom") # its filter of system calls stays for good
      if(scenario MATCHES "^(thread-churn|tls-destructors|cancellation|small-stack)$")
        math(EXPR fewer "${ops} / 3") # more than a thousand threads end in a round of thread-churn
      elseif(NOT scenario STREQUAL "idle")
        math(EXPR fewer "${ops} / 32")
      else()
        set(fewer ${ops}) # fewer ops never sleep
      endif()
      stress_scenario_test(${name}.rounds stress ${scenario} --allocator ${subject} --threads 4 --ops ${fewer} --laps 2
        --repeat 5)
    endif()
    if(scenario MATCHES "^(larson|random-mixed|remote-free)$")
      math(EXPR fewer "${ops} / 4")
      foreach(threads IN ITEMS 1 2 8)
        stress_os_test(${name}.os.t${threads} stress ${scenario} --allocator ${subject} --threads ${threads}
          --ops ${fewer})
      endforeach()
    endif()
  endforeach()
endforeach()

# The three harnesses with every option and with pairs of them, while their threads are cancelled on the smallest stacks.
if(NOT HAKMEM_DIRECT AND NOT CMAKE_CROSSCOMPILING AND TARGET hakmem_static AND NOT STRESS_SANITIZED)
  foreach(subject hakmem validate)
    foreach(run "|60;1" ".all|10000;0")
      string(REGEX REPLACE "[|].*" "" suffix "${run}")
      string(REGEX REPLACE ".*[|]" "" extent "${run}")
      add_test(NAME stress.cancelled.${subject}${suffix} COMMAND Python3::Interpreter
        ${PROJECT_SOURCE_DIR}/alloc/programs/cancel_check $<TARGET_FILE:hakmem-stress> ${subject} ${extent})
      set_tests_properties(stress.cancelled.${subject}${suffix} PROPERTIES LABELS "stress;inject" TIMEOUT 3600)
    endforeach()
  endforeach()
endif()

# Each value of each option and feature with each of every other, in a program of laws and under the three harnesses.
if(NOT HAKMEM_DIRECT AND NOT CMAKE_CROSSCOMPILING AND TARGET pairs-program AND NOT STRESS_SANITIZED)
  foreach(library hakmem hakmem-validate)
    string(REPLACE hakmem- "" subject ${library})
    foreach(suffix IN ITEMS "" .all)
      string(REPLACE .all --all extent "${suffix}")
      add_test(NAME stress.pairs.${subject}${suffix} COMMAND Python3::Interpreter
        ${PROJECT_SOURCE_DIR}/alloc/programs/pairs_check $<TARGET_FILE:${library}> $<TARGET_FILE:pairs-program>
        $<TARGET_FILE:hakmem-stress> ${extent})
      set_tests_properties(stress.pairs.${subject}${suffix} PROPERTIES LABELS stress TIMEOUT 3600)
    endforeach()
  endforeach()
endif()

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/scenarios.txt "${stress_names}")
add_test(NAME stress.list COMMAND sh -c
  "'$<TARGET_FILE:hakmem-stress>' list | sed -n '/^$/q;s/ .*//p' | diff '${CMAKE_CURRENT_BINARY_DIR}/scenarios.txt' -")
set_tests_properties(stress.list PROPERTIES LABELS stress)

# Known defects of peers: SCENARIO.PEER=RULES. Whether one shows is chance; a run that fails only these rules is
# skipped, and says so.
# - mimalloc 2.0.9 and gperftools 2.10 grow when threads end, since nobody adopts their heaps (mimalloc#202,
#   mimalloc#333).
# - jemalloc 5.3.0, gperftools 2.10 and mimalloc 2.0.9: free changes errno when the system refuses memory (jemalloc
#   3a779661); so do jemalloc 5.3.1, mimalloc 3.3.2 and rpmalloc 1.4.3.
# - mimalloc 3.3.2 and rpmalloc 1.4.3 grow too where threads end, and where blocks change their size.
# - Scudo's free sets errno to EAGAIN where threads wait for one lock, and aborts where the system refuses memory.
# - rpmalloc has no alignment of 64 KiB and more (rpmalloc.h).
set(STRESS_PEER_GROWS "memory_bound|plateau|mappings")
set(STRESS_SCUDO_KNOWN)
foreach(entry IN LISTS STRESS_SCENARIOS)
  string(REGEX REPLACE ":.*" "" entry ${entry})
  list(APPEND STRESS_SCUDO_KNOWN ${entry}.scudo=errno_wait)
endforeach()
list(REMOVE_ITEM STRESS_SCUDO_KNOWN oom.scudo=errno_wait limit.scudo=errno_wait fragmentation.scudo=errno_wait)
list(APPEND STRESS_SCUDO_KNOWN fragmentation.scudo=errno_wait|memory_bound oom.scudo=errno_wait|crash limit.scudo=errno_wait|crash)
set(STRESS_PEER_DEFECTS
  thread-churn.mimalloc=${STRESS_PEER_GROWS} tls-destructors.mimalloc=${STRESS_PEER_GROWS}
  cancellation.mimalloc=${STRESS_PEER_GROWS} small-stack.mimalloc=${STRESS_PEER_GROWS}
  signals.mimalloc=${STRESS_PEER_GROWS} dlopen.mimalloc=${STRESS_PEER_GROWS} oom.mimalloc=${STRESS_PEER_GROWS}|errno_kept
  thread-churn.tcmalloc=${STRESS_PEER_GROWS} tls-destructors.tcmalloc=${STRESS_PEER_GROWS}
  oom.jemalloc=errno_kept oom.tcmalloc=errno_kept oom.jemalloc531=errno_kept
  oom.mimalloc3=${STRESS_PEER_GROWS}|errno_kept oom.rpmalloc=${STRESS_PEER_GROWS}|errno_kept
  aligned.rpmalloc=enomem ${STRESS_SCUDO_KNOWN})
foreach(scenario IN ITEMS thread-churn tls-destructors cancellation small-stack signals dlopen realloc-walk calloc)
  list(APPEND STRESS_PEER_DEFECTS ${scenario}.mimalloc3=${STRESS_PEER_GROWS} ${scenario}.rpmalloc=${STRESS_PEER_GROWS})
endforeach()
set(STRESS_RUN_ON_PEER [[
library=$1; rules=$2; shift 2
case $library in system) ;; *) [ -r "$library" ] || { echo "skipped: there is no $library: ci/setup --peers"; exit 77; } ;; esac
out=$("$@" 2>&1); status=$?
printf '%s\n' "$out"
[ -n "$rules" ] || exit "$status"
# A crash ends the run before it can print a failure.
out=$(printf '%s\n' "$out" | sed 's/^hakmem-stress: the subject ended the run/failure: crash: &/')
failures=$(printf '%s\n' "$out" | grep '^failure: ') || exit "$status"
printf '%s\n' "$failures" | grep -qvE "^failure: ($rules): " && exit 1
echo "skipped: this malloc is known to break $rules here"
exit 77
]])

if(NOT STRESS_SANITIZED)
  set(STRESS_PEER_DIRECTORY /usr/lib/x86_64-linux-gnu CACHE PATH "Where other mallocs are installed")
  set(STRESS_PEERS_BUILT ${PROJECT_SOURCE_DIR}/build/peers) # by ci/lib/peers
  set(system system)
  set(jemalloc ${STRESS_PEER_DIRECTORY}/libjemalloc.so.2)
  set(mimalloc ${STRESS_PEER_DIRECTORY}/libmimalloc.so.2)
  set(tcmalloc ${STRESS_PEER_DIRECTORY}/libtcmalloc_minimal.so.4)
  foreach(peer IN ITEMS jemalloc531 mimalloc3 snmalloc rpmalloc)
    set(${peer} ${STRESS_PEERS_BUILT}/lib${peer}.so)
  endforeach()
  file(GLOB scudo /usr/lib/llvm-19/lib/clang/19*/lib/*/libclang_rt.scudo_standalone-${CMAKE_SYSTEM_PROCESSOR}.so)
  if(NOT scudo)
    set(scudo libclang_rt.scudo_standalone-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  foreach(peer IN ITEMS system jemalloc jemalloc531 mimalloc mimalloc3 snmalloc rpmalloc scudo tcmalloc)
    foreach(entry IN LISTS STRESS_SCENARIOS)
      string(REPLACE ":" ";" entry ${entry})
      list(GET entry 0 scenario)
      list(GET entry 1 ops)
      set(name peers.${scenario}.${peer})
      set(known ${STRESS_PEER_DEFECTS})
      list(FILTER known INCLUDE REGEX "^${scenario}\\.${peer}=")
      string(REGEX REPLACE "^.*=" "" rules "${known}")
      # Four laps: these mallocs warm up slowly, so only longer runs show whether memory reaches a plateau.
      add_test(NAME ${name} COMMAND sh -c "${STRESS_RUN_ON_PEER}" peer ${${peer}} "${rules}"
        $<TARGET_FILE:hakmem-stress> ${scenario} --allocator ${${peer}} --threads 4 --ops ${ops} --laps 4 --seed 42)
      set_tests_properties(${name} PROPERTIES LABELS peers TIMEOUT 300 RUN_SERIAL ON)
      if(known OR NOT peer STREQUAL "system")
        set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
      endif()
      stress_may_skip(${name})
    endforeach()
  endforeach()
endif()

# Sequences that once failed somewhere.
file(GLOB stress_regress CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/corpus/regress/*.txt
  ${PROJECT_SOURCE_DIR}/corpus/regress/*.ops)
foreach(file IN LISTS stress_regress)
  get_filename_component(name ${file} NAME)
  foreach(subject IN LISTS STRESS_SUBJECTS)
    stress_command(command ${subject})
    add_test(NAME corpus.${name}.${subject} COMMAND ${command} run ${file} --allocator ${subject})
    set_tests_properties(corpus.${name}.${subject} PROPERTIES LABELS unit TIMEOUT 300)
    stress_may_skip(corpus.${name}.${subject})
  endforeach()
endforeach()

# Traces of real programs (ci/traces).
file(GLOB stress_traces CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/corpus/traces/*.trace)
if(STRESS_ZSTD)
  foreach(file IN LISTS stress_traces)
    get_filename_component(name ${file} NAME_WE)
    foreach(subject IN LISTS STRESS_SUBJECTS)
      add_test(NAME corpus.traces.${name}.${subject} COMMAND hakmem-stress run ${file} --allocator ${subject})
      set_tests_properties(corpus.traces.${name}.${subject} PROPERTIES LABELS stress TIMEOUT 300)
    endforeach()
  endforeach()
endif()
