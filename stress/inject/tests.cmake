# Injected faults, label inject; two minutes in all on two cores. See inject.h. Tests elsewhere also have this label:
# alloc/tests.cmake, campaign/.
#   inject.calls.SUBJECT      each call to the system for memory fails, in each scenario
#   inject.calls.SUBJECT.few  the same in runs of at most eight such calls
#   inject.space.SUBJECT      the address space ends, in each scenario
#   inject.signals.SUBJECT    threads are interrupted every 100 us, in the three harnesses
# A run that is impossible because of seccomp or a sanitizer is skipped, and says so.

set(options_signals --seconds 0.3)
if(NOT STRESS_SANITIZED)
  foreach(subject IN LISTS STRESS_SUBJECTS)
    foreach(kind IN ITEMS calls space signals)
      add_test(NAME inject.${kind}.${subject}
        COMMAND hakmem-stress inject ${kind} --allocator ${subject} --seed 42 ${options_${kind}})
      set_tests_properties(inject.${kind}.${subject} PROPERTIES LABELS inject TIMEOUT 1200 SKIP_RETURN_CODE 77
        COST 10)
    endforeach()
    add_test(NAME inject.calls.${subject}.few
      COMMAND hakmem-stress inject calls --allocator ${subject} --seed 42 --calls 8)
    set_tests_properties(inject.calls.${subject}.few PROPERTIES LABELS inject TIMEOUT 1200 SKIP_RETURN_CODE 77
      COST 10)
  endforeach()
endif()

# A soak of the real program, killed at random moments. One subject is enough, because the accounts are the harness's.
if(NOT STRESS_SANITIZED)
  list(GET STRESS_SUBJECTS 0 subject)
  add_test(NAME inject.soak
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/inject/soak_test $<TARGET_FILE:hakmem-stress> ${subject})
  set_tests_properties(inject.soak PROPERTIES LABELS inject TIMEOUT 400)
endif()
