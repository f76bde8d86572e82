# Tests that cannot run under a processor emulator (qemu-user), since it does not behave like the kernel in all
# respects. Each becomes a test that skips with the reason; the rest of its suite runs.

set(EMULATOR_LACKS_LIMITS "it does not hold a process to RLIMIT_AS")
set(EMULATOR_LACKS_FORK "the child of a process with threads cannot start threads or count on its locks")
set(EMULATOR_LACKS_MAPS "its own memory is in /proc/self/maps, and mincore knows only memory that can be read")
set(EMULATOR_LACKS_ERRORS "its madvise, mprotect and mremap of what is not mapped do not fail as they must")
set(EMULATOR_LACKS_EXEC "a program of the other processor cannot start itself again")
set(EMULATOR_LACKS_MEMORY "page faults and the memory in a cgroup are its own too, and its madvise makes no huge pages")
set(EMULATOR_LACKS_PEEK "it has no process_vm_readv, and without descriptors there is no pipe to read memory by")
set(EMULATOR_LACKS_TIME "it takes minutes there")
set(EMULATOR_LACKS_ROOM "it walks each page of a mapping of hundreds of GiB, which takes it minutes")
set(EMULATOR_LACKS
    "Fresh.AddressSpaceOfAGibibyte=LIMITS"
    "FreshLimit.FreedHugeMemoryServesSmallBlocksUnderALimit=LIMITS"
    "FreshLimit.TheFirstSuperslabsTakeRunsUnderAnyLimit=LIMITS"
    "FreshLimit.OnlyLongBlocksGetMappingsInTheWindow=LIMITS"
    "Tight.AHeapOfTheProgramsOwnHasRuns=LIMITS"
    "Tight.ALimitThatIsRaisedCountsLater=LIMITS"
    "Tight.ARefusedMappingBecomesARun=LIMITS"
    "Tight.BlocksAreRunsUpToTheShareAndWhereverPagesAreFree=LIMITS"
    "Tight.BlocksOfEachSizeFillTheAddressSpace=LIMITS"
    "Tight.BlocksOfWhichTheMappingsWouldBeTooManyStayRuns=LIMITS"
    "Tight.MappingsCountAndAreKeptAsThoseOfHugeBlocks=LIMITS"
    "Tight.RefusedAtEveryCall=LIMITS"
    "Tight.ResizesInTheMapping=LIMITS"
    "Tight.ThreadsAtTheLimit=LIMITS"
    "Fork.AThreadMoreCostsTwoPagesAndAQuarter=MEMORY"
    "Fork.ChildStartsThreadsThatAdopt=FORK"
    "Fork.Grandchild=FORK"
    "Fork.InTheMidstOfOthersWork=FORK"
    "ForkAtStep.WhileAnotherThreadHoldsALockOrChangesItsHeap=FORK"
    "ForkAtStep.AListHalfGivenBackIsNotTrusted=FORK"
    "ForkAtStep.TheGrandchildOfABusyThread=FORK"
    "ForkAtStep.BetweenPostAndQueue=FORK"
    "Background.AChildHasNoneAndMayStartOne=FORK"
    "Background.CannotStart=LIMITS"
    "OsLinux.AddressSpaceLimit=LIMITS"
    "Visit.AChildForkedDuringVisits=FORK"
    "ForkLock.EachLockIsHeldAtTheFork=FORK"
    "ForkLock.WithThreadsThatWaitForIt=FORK"
    "OsLinux.ReserveAtEveryAlignment=MAPS"
    "OsPages.SixteenKib=MAPS"
    "OsPages.SixtyFourKib=MAPS"
    "OsLinux.ErrorsAreReturned=ERRORS"
    "OsLinux.ReserveRefuses=TIME"
    "Backing.PrewarmedPagesCostNoFault=MEMORY"
    "Backing.FullSuperslabsBecomeHugePages=MEMORY"
    "Limit.NoKillInAMemoryCgroup=MEMORY"
    "CrashModules.WithoutTheSystemsMapsTheLinkersListServes=PEEK"
    "Peek.ZerosWhereItCannotBeRead=PEEK"
    "OverrideNew.AHandlerThatFreesMemory=LIMITS"
    "Report.TheLevelIsFoundBehindEntriesOfAnyLength=EXEC"
    "Report.ThePreloadedLibraryIsNamedUpToItsBound=EXEC"
    "Report.TheCommandIsRepeatedUpToItsBound=EXEC"
    "Fresh.TheMapGrowsUnderThreads=ROOM"
    "Fresh.TheMapGrowsWithTheAddresses=ROOM"
    "FrameTest.AnAlignmentThatIsMostOfTheBlock=ROOM"
    "StrayDeathTest.BehindAModulesData=MAPS"
    "ValidateDeathTest.Foreign=MAPS"
    "TrimThreads.FreeIntoHollowSlabsOfAnother=TIME")

# Seconds for a suite of unit tests. Under an emulator Fresh takes two minutes on a busy machine.
set(SUITE_TIMEOUT 600)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(SUITE_TIMEOUT 3000)
endif()

# hakmem_emulator_lacks(PREFIX SUITE OUT): sets OUT to the tests that the suite's filter must leave out, "" for none.
# Each of these becomes a test that skips.
function(hakmem_emulator_lacks prefix suite out)
  set(lacking "")
  if(CMAKE_CROSSCOMPILING_EMULATOR)
    foreach(entry IN LISTS EMULATOR_LACKS)
      if(entry MATCHES "^(${suite}\\.[A-Za-z]+)=([A-Z]+)$")
        string(APPEND lacking ":${CMAKE_MATCH_1}")
        add_test(NAME ${prefix}/${CMAKE_MATCH_1}
            COMMAND sh -c "echo 'skipped: under an emulator: ${EMULATOR_LACKS_${CMAKE_MATCH_2}}'; exit 77")
        set_tests_properties(${prefix}/${CMAKE_MATCH_1} PROPERTIES LABELS unit SKIP_RETURN_CODE 77)
      endif()
    endforeach()
    string(REGEX REPLACE "^:" "-" lacking "${lacking}")
  endif()
  set(${out} "${lacking}" PARENT_SCOPE)
endfunction()
