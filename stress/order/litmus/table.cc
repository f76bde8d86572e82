// Sources, and what each says:
//
//   genmc      GenMC 0.11.0, tests/correct/litmus/NAME: how many executions its checker finds under RC11
//              (expected.rc11.mo.in). Kokologiannakis, Raad, Vafeiadis, PLDI 2019; Kokologiannakis, Vafeiadis, CAV 2021
//   rc11       Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing sequential consistency in C/C++11, PLDI 2017
//   p0668      Boehm, Giroux, Vafeiadis: P0668R5, Revising the C++ memory model, adopted in C++20
//   batty      Batty, Owens, Sarkar, Sewell, Weber: Mathematizing C++ concurrency, POPL 2011
//   tutorial   Maranget, Sarkar, Sewell: A tutorial introduction to the ARM and POWER relaxed memory models, 2012. Its shapes;
//              the answer is that of C++20, as herd's c11 models and GenMC give it
//   p0982      Boehm, Giroux: P0982R1, Weaken release sequences, adopted in C++20
//   c11        C11: 5.1.2.4 or 7.17, as named
//   popl17     Kang, Hur, Lahav, Vafeiadis, Dreyer: A promising semantics, POPL 2017
//   ours       a choice that the standards leave open; README.md
#include "order/litmus/table.h"

namespace stress::order {
namespace {

constexpr bool kAllowed = true, kForbidden = false;

constexpr LitmusTest kTests[] = {
    // Store buffering.
    {"SB", "x=1 rel; y acq | y=1 rel; x acq", "00", kAllowed, 4, "genmc SB"},
    {"SB+rlx", "x=1 rlx; y rlx | y=1 rlx; x rlx", "00", kAllowed, 0, "batty"},
    {"SB+4sc", "x=1 sc; y sc | y=1 sc; x sc", "00", kForbidden, 3, "genmc SB+4sc; batty"},
    {"SB+3sc+acq", "x=1 sc; y sc | y=1 sc; x acq", "00", kAllowed, 4, "genmc SB+3sc+acq"},
    {"SB+3sc+rel", "x=1 sc; y sc | y=1 rel; x sc", "00", kAllowed, 4, "genmc SB+3sc+rel"},
    {"SB+scfs", "x=1 rlx; fence sc; y rlx | y=1 rlx; fence sc; x rlx", "00", kForbidden, 3, "genmc SB+scfs"},
    {"SB+arfs", "x=1 rlx; fence ar; y rlx | y=1 rlx; fence ar; x rlx", "00", kAllowed, 0, "batty"},
    {"SB+2sc+scf", "x=1 sc; y sc | y=1 rlx; fence sc; x rlx", "00", kForbidden, 3, "genmc SB+2sc+scf"},
    {"SB+rfis", "x=1 rel; x sc; y sc | y=1 rel; y sc; x sc", "1010", kAllowed, 4, "genmc SB+rfis"},
    {"SB+rmws", "x:=1 ar; y acq | y:=1 ar; x acq", "0000", kAllowed, 0, "c11 7.17.3: no fence"},
    {"SB+scf+none", "x=1 rlx; fence sc; y rlx | y=1 rlx; x rlx", "00", kAllowed, 0, "batty"},

    // Message passing.
    {"MP", "x=1 rel; y=1 rel | y acq; x acq", "10", kForbidden, 3, "genmc MP; batty"},
    {"MP+rlx", "x=1 rlx; y=1 rlx | y rlx; x rlx", "10", kAllowed, 0, "batty"},
    {"MP+rel+rlx", "x=1 rlx; y=1 rel | y rlx; x rlx", "10", kAllowed, 0, "batty"},
    {"MP+rlx+acq", "x=1 rlx; y=1 rlx | y acq; x rlx", "10", kAllowed, 0, "batty"},
    {"MP+con", "x=1 rlx; y=1 rel | y con; x rlx", "10", kForbidden, 0, "p0371: consume is acquire"},
    {"MP+relf+acqf+rlx", "x=1 rlx; fence rel; y=1 rlx | y rlx; fence acq; x rlx", "10", kForbidden, 0, "batty"},
    {"MP+acqf+relf", "x=1 rlx; fence acq; y=1 rlx | y rlx; fence rel; x rlx", "10", kAllowed, 0, "c11 7.17.4"},
    {"MP+relf-early", "fence rel; x=1 rlx; y=1 rlx | y acq; x rlx", "10", kAllowed, 0, "c11 7.17.4"},
    {"MP+rel+acq", "x=1 na; y=1 rel | y acq; if r0=1; x na", "race", kForbidden, 2, "genmc MP+rel+acq"},
    {"MP+rel+acqf", "x=1 na; y=1 rel | y rlx; if r0=1; fence acq; x na", "race", kForbidden, 2, "genmc MP+rel+acqf"},
    {"MP+relf+acq", "x=1 na; fence rel; y=1 rlx | y acq; if r0=1; x na", "race", kForbidden, 2, "genmc MP+relf+acq"},
    {"MP+relf+acqf", "x=1 na; fence rel; y=1 rlx | y rlx; if r0=1; fence acq; x na", "race", kForbidden, 2,
     "genmc MP+relf+acqf"},
    {"MP+rlx+acq+na", "x=1 na; y=1 rlx | y acq; if r0=1; x na", "race", kAllowed, 0, "c11 5.1.2.4 p25"},
    {"MP+rel+rlx+na", "x=1 na; y=1 rel | y rlx; if r0=1; x na", "race", kAllowed, 0, "c11 5.1.2.4 p25"},
    {"MP2", "a=1 rlx; c=1 rlx; fence ar; b=1 rlx; d=1 rlx | b rlx; fence ar; a rlx | d rlx; fence ar; c rlx", "1010",
     kForbidden, 9, "genmc MP2"},
    {"MP+incMP", "y acq; z+1 ar | z+1 ar; x acq | x=1 rel; y=1 rel", "1010/2", kForbidden, 7, "genmc MP+incMP"},

    // Release sequences.
    {"MP+rels+acq", "x=1 rlx; y=0 rel; y=1 rlx | y acq; if r0>0; x=2 rlx", "1/11", kAllowed, 4,
     "genmc S+rels+acq; p0982"},
    {"MP+rels+acqf", "x=1 rlx; y=0 rel; y=1 rlx | y rlx; if r0>0; fence acq; x=2 rlx", "1/11", kAllowed, 4,
     "genmc S+rels+acqf; p0982"},
    {"MP+rels+acq+c11", "x=1 na; y=0 rel; y=1 rlx | y acq; if r0>0; x na", "race", kForbidden, 0, "c11 5.1.2.4 p10",
     true},
    {"MP+rels+acq+c++20", "x=1 na; y=0 rel; y=1 rlx | y acq; if r0>0; x na", "race", kAllowed, 0, "p0982"},
    {"MPU+rel+acq", "x=1 na; y=1 rel | y+1 rlx | y acq; if r0>1; x=2 na", "race", kForbidden, 6, "genmc MPU+rel+acq"},
    {"MPU+rel+acqf", "x=1 na; y=1 rel | y+1 rlx | y rlx; if r0>1; fence acq; x=2 na", "race", kForbidden, 6,
     "genmc MPU+rel+acqf"},
    {"MPU+relf+acq", "x=1 na; fence rel; y=1 rlx | y+1 rlx | y acq; if r0>1; x=2 na", "race", kForbidden, 6,
     "genmc MPU+relf+acq"},
    {"MPU+relf+acqf", "x=1 na; fence rel; y=1 rlx | y+1 rlx | y rlx; if r0>1; fence acq; x=2 na", "race", kForbidden, 6,
     "genmc MPU+relf+acqf"},
    {"MPU+rlx", "x=1 na; y=1 rlx | y+1 ar | y acq; if r0>1; x=2 na", "race", kAllowed, 0, "c11 5.1.2.4 p25"},
    {"MPU+rels+acq", "x=1 rlx; y=0 rel; y=1 rlx | y+1 rlx | y acq; if r0>1; x=2 rlx", "12/12", kAllowed, 13,
     "genmc MPU+rels+acq"},
    {"MPU+rels+acqf", "x=1 rlx; y=0 rel; y=1 rlx | y+1 rlx | y rlx; if r0>1; fence acq; x=2 rlx", "12/12", kAllowed, 13,
     "genmc MPU+rels+acqf"},
    {"MPU2+rel+acq", "x=1 na; y=1 rel | y?2:3 rlx rlx | y?1:2 rlx rlx | y acq; if r0>2; x=2 na", "race", kForbidden, 14,
     "genmc MPU2+rel+acq"},
    {"MPU2+rel+acqf", "x=1 na; y=1 rel | y?2:3 rlx rlx | y?1:2 rlx rlx | y rlx; if r0>2; fence acq; x=2 na", "race",
     kForbidden, 14, "genmc MPU2+rel+acqf"},
    {"MPU2+relf+acq", "x=1 na; fence rel; y=1 rlx | y?2:3 rlx rlx | y?1:2 rlx rlx | y acq; if r0>2; x=2 na", "race",
     kForbidden, 14, "genmc MPU2+relf+acq"},
    {"MPU2+relf+acqf", "x=1 na; fence rel; y=1 rlx | y?2:3 rlx rlx | y?1:2 rlx rlx | y rlx; if r0>2; fence acq; x=2 na",
     "race", kForbidden, 14, "genmc MPU2+relf+acqf"},
    {"MPU2+rels+acq", "x=1 rlx; y=0 rel; y=1 rlx | y?2:3 rlx rlx | y?1:2 rlx rlx | y acq; if r0>2; x=2 rlx", "213/13",
     kAllowed, 36, "genmc MPU2+rels+acq"},
    {"relseq", "x=1 rlx; y=1 rel; y=2 rlx | y:=3 rlx | y rlx; fence ar; x rlx", "130/2", kForbidden, 20,
     "genmc relseq"},
    {"viktor-relseq", "x+1 acq; x+1 rlx | x+1 rlx; x+1 rlx | x+1 rel | x+1 rlx", "012345/6", kAllowed, 180,
     "genmc viktor-relseq"},

    // Write serialization.
    {"S", "x=2 rlx; y=1 rlx | y rlx; x=1 rlx", "1/2", kAllowed, 4, "genmc S"},
    {"S+rel+acq+rlx", "x=2 rlx; y=1 rel | y acq; x=1 rlx", "1/2", kForbidden, 0, "batty"},
    {"S+rel+acq", "x=1 na; y=1 rel | y acq; if r0=1; x=2 na", "race", kForbidden, 2, "genmc S+rel+acq"},
    {"S+rel+acqf", "x=1 na; y=1 rel | y rlx; if r0=1; fence acq; x=2 na", "race", kForbidden, 2, "genmc S+rel+acqf"},
    {"S+relf+acq", "x=1 na; fence rel; y=1 rlx | y acq; if r0=1; x=2 na", "race", kForbidden, 2, "genmc S+relf+acq"},
    {"S+relf+acqf", "x=1 na; fence rel; y=1 rlx | y rlx; if r0=1; fence acq; x=2 na", "race", kForbidden, 2,
     "genmc S+relf+acqf"},
    {"2+2W", "x=1 rel; y=2 rel | y=1 rel; x=2 rel", "/11", kAllowed, 4, "genmc 2+2W; rc11"},
    {"2+2W+4sc", "x=1 sc; y=2 sc | y=1 sc; x=2 sc", "/11", kForbidden, 3, "genmc 2+2W+4sc"},
    {"2+2W+3sc+rel1", "x=1 sc; y=2 sc | y=1 rel; x=2 sc", "/11", kAllowed, 4, "genmc 2+2W+3sc+rel1"},
    {"2+2W+3sc+rel2", "x=1 sc; y=2 sc | y=1 sc; x=2 rel", "/11", kAllowed, 4, "genmc 2+2W+3sc+rel2"},
    {"2+2W+scfs", "x=1 rlx; fence sc; y=2 rlx | y=1 rlx; fence sc; x=2 rlx", "/11", kForbidden, 3, "genmc 2+2W+scfs"},
    {"2+2W+2sc+scf", "x=1 sc; y=2 sc | y=1 rlx; fence sc; x=2 rlx", "/11", kForbidden, 3, "genmc 2+2W+2sc+scf"},
    {"R+scfs", "x=1 rlx; fence sc; y=1 rlx | y=2 rlx; fence sc; x rlx", "0/2", kForbidden, 0, "tutorial"},
    {"R", "x=1 rel; y=1 rel | y=2 rel; x acq", "0/2", kAllowed, 0, "tutorial"},

    // Load buffering. C11 and C++20 allow 11 for relaxed accesses ([atomics.order] p8 only discourages thin air); RC11
    // forbids any cycle of sequenced-before and reads-from, and this model follows it.
    {"LB", "y acq; x=1 rel | x acq; y=1 rel", "11", kForbidden, 3, "genmc LB; batty"},
    {"LB2", "x rlx; y=1 rlx | y rlx; x=1 rlx", "11", kForbidden, 3, "genmc LB2; rc11; C++20 allows"},
    {"LB+acq", "x acq; y=1 rlx | y acq; x=1 rlx", "11", kForbidden, 3, "genmc LB+acq"},
    {"LB+rel", "x rlx; y=1 rel | y rlx; x=1 rel", "11", kForbidden, 3, "genmc LB+rel"},
    {"LB+dep", "x rlx; y=r0+1 rlx | y rlx; x=r0+1 rlx", "11", kForbidden, 3, "genmc LB+dep"},
    {"LB+data", "x rlx; y=r0 rlx | y rlx; x=r0 rlx", "11", kForbidden, 0, "batty: thin air"},
    {"LB3", "a rlx; b=1 rlx | b rlx; c=1 rlx | c rlx; a=1 rlx", "111", kForbidden, 7, "genmc LB3; C++20 allows"},
    {"LB+fr-fr-data+data", "x rlx; y=1 rlx | y rlx; y rlx; x=1 rlx | y=2 rlx", "121/2", kForbidden, 18,
     "genmc LB+fr-fr-data+data"},
    {"LB+incMPs", "x acq; z+1 ar | z+1 ar; y=1 rel | y acq; w+1 ar | w+1 ar; x=1 rel", "1011/22", kForbidden, 15,
     "genmc LB+incMPs"},

    // Coherence.
    {"CoRR", "x=1 rel; x=2 rel | x acq; x acq", "21/2", kForbidden, 6, "genmc CoRR; batty"},
    {"CoRR+rlx", "x=1 rlx | x rlx; x rlx", "10", kForbidden, 0, "batty"},
    {"CoRR0", "x=1 rel | x acq | x acq", "10", kAllowed, 4, "genmc CoRR0"},
    {"CoRR1", "x=1 rel | x=2 rel | x acq; x acq | x acq", "121/2", kAllowed, 36, "genmc CoRR1"},
    {"CoRR2", "x=1 rel | x=2 rel | x acq; x acq | x acq; x acq", "1221/2", kForbidden, 72, "genmc CoRR2"},
    {"CoRW", "x acq; x=1 rel | x=2 rel", "2/2", kForbidden, 3, "genmc CoRW; batty"},
    {"CoRW1", "x rlx; x=1 rlx", "1", kForbidden, 0, "batty"},
    {"CoWR", "x=1 rel; x acq | x=2 rel", "2/1", kForbidden, 3, "genmc CoWR; batty"},
    {"CoWW", "x=1 rlx; x=2 rlx", "/1", kForbidden, 0, "batty"},
    {"2CoWR", "y acq | x acq | x=1 rel | y=1 rel", "00", kAllowed, 4, "genmc 2CoWR"},
    {"MCP-rrw", "x=1 rel | x=2 rel | x acq", "0/1", kAllowed, 6, "genmc MCP-rrw"},
    {"default", "x acq; x acq | x=1 rel | x=2 rel", "10/2", kForbidden, 12, "genmc default"},
    {"W+RRR+W", "x=1 rlx | x rlx; x rlx; x rlx | x=2 rlx", "121/2", kForbidden, 20, "genmc W+RRR+W"},
    {"small0", "x acq | x acq; x=1 rel | x=2 rel", "12/1", kAllowed, 9, "genmc small0"},
    {"small1", "y acq; z acq; x acq | x=1 rel | y=1 rel; z=1 rel", "010", kAllowed, 8, "genmc small1"},
    {"JLT", "x=1 rel; y acq; x acq | x=2 rel; x acq | y=3 rel", "022/2", kAllowed, 8, "genmc JLT"},
    {"fr+w+w+w+reads", "x=1 rlx | x=2 rlx | x=3 rlx | x rlx; x rlx; x rlx; x rlx", "1213/3", kForbidden, 210,
     "genmc fr+w+w+w+reads"},

    // Independent reads of independent writes, and other three and four threads.
    {"IRIW", "x=1 rel | x acq; y acq | y acq; x acq | y=1 rel", "1010", kAllowed, 0, "batty"},
    {"IRIW+sc", "x=1 sc | x sc; y sc | y sc; x sc | y=1 sc", "1010", kForbidden, 0, "batty"},
    {"IRIW-acq-sc", "x=1 sc | x acq; y sc | y acq; x sc | y=1 sc", "1010", kAllowed, 16, "genmc IRIW-acq-sc; rc11"},
    {"IRIW+scfs", "x=1 rlx | x rlx; fence sc; y rlx | y rlx; fence sc; x rlx | y=1 rlx", "1010", kForbidden, 0, "rc11"},
    {"IRIW+arfs", "x=1 rlx | x rlx; fence ar; y rlx | y rlx; fence ar; x rlx | y=1 rlx", "1010", kAllowed, 0, "batty"},
    {"IRIWish", "x=1 rlx | x rlx; y=r0 rel | x rlx; fence ar; y rlx | y rlx; fence ar; x rlx", "11010", kForbidden, 28,
     "genmc IRIWish"},
    {"WRC", "x=1 rel | x acq; y=1 rel | y acq; x acq", "110", kForbidden, 0, "batty"},
    {"WRC+rlx", "x=1 rlx | x rlx; y=1 rlx | y rlx; x rlx", "110", kAllowed, 0, "batty"},
    {"WRC+rel+acq", "x=1 rlx | x rlx; y=1 rel | y acq; x rlx", "110", kForbidden, 0, "batty: read-read coherence"},
    {"ISA2", "a=1 rlx; b=1 rel | b acq; c=1 rel | c acq; a rlx", "110", kForbidden, 7, "genmc isa2"},
    {"ISA2+rlx", "a=1 rlx; b=1 rel | b rlx; c=1 rel | c acq; a rlx", "110", kAllowed, 0, "tutorial"},
    {"RWC", "x=1 rel | x acq; y acq | y=1 rel; x acq", "100", kAllowed, 0, "tutorial"},
    {"RWC+syncs", "x=1 rlx | x rlx; fence sc; y rlx | y=1 rlx; fence sc; x rlx", "100", kForbidden, 7,
     "genmc RWC+syncs; rc11"},
    {"W+RWC", "x=1 rlx; z=1 rel | z acq; fence sc; y rlx | y=1 rlx; fence sc; x rlx", "100", kForbidden, 7,
     "genmc W+RWC; rc11"},
    {"Z6+acq", "a=1 rlx; fence sc; b=1 rlx | b acq; c=1 rlx | c=2 rlx; fence sc; a rlx", "10/2", kForbidden, 7,
     "genmc Z6+acq"},
    // GenMC counts 22: see README.md.
    {"Z6.U", "x=1 sc; y=1 rel | y+1 sc; y rlx | y=3 sc; x sc", "130/3", kAllowed, 0, "rc11; p0668"},
    // Each of these is what one clause of psc decides alone.
    {"Z6.U+acq", "x=1 sc; y=1 rel | y acq; y=2 sc | y=3 sc; x sc", "10/3", kAllowed, 0, "rc11: sb|!=loc"},
    {"RWC+acq+scf+scs", "x=1 sc | x acq; fence sc; y rlx | y=1 sc; x sc", "100", kForbidden, 0, "rc11: hb|loc; hb; F"},
    {"RWC+rlx+scf+scs", "x=1 sc | x rlx; fence sc; y rlx | y=1 sc; x sc", "100", kForbidden, 0, "rc11: rb; hb; F"},
    {"W+RWC+scf+scs", "x=1 sc; z=1 rel | z acq; fence sc; y rlx | y=1 sc; x sc", "100", kForbidden, 0,
     "rc11: sb; hb; F"},
    {"W+RWC+scs+scf", "z=1 rlx; fence sc; x=1 rel | x acq; y sc | y=1 sc; z sc", "100", kForbidden, 0,
     "rc11: F; hb; sb"},
    {"peterZ", "x=1 rlx; fence sc; y rlx | y=1 rlx; z=1 rel | z acq; fence sc; x rlx", "010", kForbidden, 7,
     "genmc peterZ"},
    {"WWmerge2", "x acq; y sc | x=2 sc | y=1 sc; x sc", "200", kAllowed, 8, "genmc WWmerge2"},
    // A compiler may merge the two stores only if this allows what WWmerge2 allows. GenMC counts 17: see README.md.
    {"WWmerge1", "x acq; y sc | x=1 sc; x=2 sc | y=1 sc; x sc", "200/2", kAllowed, 0, "rc11: sb|!=loc"},
    {"psc-ar", "y rlx; if r0=1; fence sc; z rlx | z=1 rlx; fence sc; x=1 rlx | x rlx; if r0=1; y=1 rlx", "101",
     kAllowed, 0, "genmc psc-ar"},
    {"psc-base-notin-ar", "x rlx; if r0=2; y=1 sc | y=2 sc | y rlx; if r0=2; x=r0 rlx", "22/2", kAllowed, 0,
     "genmc psc-base-notin-ar"},
    {"psc-sbhbsb", "x=1 sc; y=1 sc | x acq; y sc", "10", kAllowed, 0, "genmc psc-sbhbsb"},
    {"cumul-release", "x=1 rlx; y=1 rel | y rlx; z=r0 rlx | z rlx; fence ar; x rlx", "110", kAllowed, 8,
     "genmc cumul-release"},
    {"rel-B-cumul-acq", "x=1 rlx; y=1 rel | y rlx; z=r0 rlx | z rlx; fence ar; x rlx | y acq", "1101", kAllowed, 16,
     "genmc rel-B-cumul-acq"},
    {"relacq-B-cumul", "x=1 rlx; y=1 rel | y acq; z=1 rlx | z rlx; fence ar; x rlx", "110", kAllowed, 8,
     "genmc relacq-B-cumul"},
    {"detour", "x=1 rlx | z rlx; x=r0-1 rlx; x rlx; y=r1 rlx | y rlx; z=r0 rlx", "111/1", kForbidden, 9,
     "genmc detour"},
    {"po-loc", "y rlx; fence ar; x rlx; x=1 rlx | x rlx; y=r0 rlx", "111", kForbidden, 3, "genmc po-loc"},
    {"rfi-preserved", "x rlx; y=1 rel; y rlx; z=r1 rlx | z rlx; x=r0 rlx", "111", kForbidden, 3, "genmc rfi-preserved"},
    {"rel-pporf", "x rlx; z=1 rel; y=1 rel | y rlx; x=1 rlx", "11", kForbidden, 3, "genmc rel-pporf"},

    // Read-modify-writes.
    {"inc2w", "x+1 rlx | x=4 rel | x+2 rlx", "00/4", kForbidden, 6, "genmc inc2w"},
    {"cii", "x?1:2 rlx rlx | x+1 rlx | x+1 rlx", "112/3", kForbidden, 6, "genmc cii"},
    {"rii", "x rlx; x+1 rlx | x+1 rlx", "100/2", kForbidden, 3, "genmc rii"},
    {"riwi", "y rlx; x+1 rlx | x+1 rlx; y=1 rel", "100/2", kForbidden, 3, "genmc riwi"},
    {"rinc+wr", "x+1 rlx | x=2 rlx; x rlx", "01/2", kForbidden, 3, "genmc rinc+wr"},
    {"wcii", "x=5 rel | x?1:2 rlx rlx | x+1 rlx | x+1 rlx", "000/5", kForbidden, 24, "genmc wcii"},
    {"ccr", "x?0:2 rlx rlx | x?0:1 rlx rlx; x rlx", "021/2", kForbidden, 0, "genmc ccr"},
    {"atomicpo", "y=1 rlx; fence ar; x=1 rlx | x:=1 rlx; y:=1 rlx", "10/11", kAllowed, 4, "genmc atomicpo"},
    {"ori", "x+1 rlx; y=1 rel | x?0:1 acq acq | y rlx; if r0=1; x=4 rel", "010/1", kAllowed, 0, "genmc ori"},
    {"inc+inc+RR+W+RR", "x+1 rlx | x+1 rlx | x rlx; x rlx | x=42 rlx | x rlx; x rlx", "001221/2", kForbidden, 600,
     "genmc inc+inc+RR+W+RR"},
    {"inc", "x+1 rlx | x+1 rlx", "00/1", kForbidden, 0, "c11 7.17.3 p12"},
    {"cas", "x?0:1 ar rlx | x?0:2 ar rlx", "00/2", kForbidden, 0, "c11 7.17.3 p12"},
    {"cas-strong", "x?0:1 rlx rlx; x rlx", "00", kForbidden, 0, "c11 7.17.7.4"},
    {"cas-success-acq", "d=1 na; x=1 rel | x?1:2 acq rlx; if r0=1; d na", "race", kForbidden, 0, "c11 7.17.7.4"},
    {"cas-success-rlx", "d=1 na; x=1 rel | x?1:2 rlx rlx; if r0=1; d na", "race", kAllowed, 0, "c11 7.17.7.4"},
    {"cas-failure-acq", "d=1 na; x=1 rel | x?0:2 rlx acq; if r0=1; d na", "race", kForbidden, 0, "c11 7.17.7.4"},
    {"cas-failure-rlx", "d=1 na; x=1 rel | x?0:2 acq rlx; if r0=1; d na", "race", kAllowed, 0, "c11 7.17.7.4"},
    {"lock", "x?0:1 acq rlx; if r0=0; d=1 na; x=0 rel | x?0:1 acq rlx; if r0=0; d=2 na; x=0 rel", "race", kForbidden, 0,
     "c11 5.1.2.4"},
    {"lock+rlx", "x?0:1 acq rlx; if r0=0; d=1 na; x=0 rlx | x?0:1 acq rlx; if r0=0; d=2 na; x=0 rel", "race", kAllowed,
     0, "c11 5.1.2.4"},

    // Sizes, 1, 2, 8 and 16 bytes; then several sizes for the same bytes.
    {"MP+1+2", "h=1 rlx; k=1 rel | k acq; h rlx", "10", kForbidden, 0, "batty"},
    {"MP+16+8", "o=1 rlx; q=1 rel | q acq; o rlx", "10", kForbidden, 0, "batty"},
    {"MP+8+16", "q=1 rlx; o=1 rel | o acq; q rlx", "10", kForbidden, 0, "batty"},
    {"SB+1+16", "k=1 rlx; o rlx | o=1 rlx; k rlx", "00", kAllowed, 0, "batty"},
    {"inc+1", "k+255 rlx | k+2 rlx", "0[ff]/1", kAllowed, 0, "c11 7.17.7.5: no overflow"},
    {"cas+16", "o?0:1 ar rlx | o?0:2 ar rlx", "00/2", kForbidden, 0, "c11 7.17.3 p12"},
    {"mixed+wide-store", "q=0x100000001 rlx | q0 rlx; q1 rlx", "10", kForbidden, 0, "ours"},
    {"mixed+wide-load", "q0=1 rlx; q1=1 rlx | q rlx", "[100000000]", kForbidden, 0, "ours"},
    {"mixed+halves", "q0=1 rlx; q1 rlx | q1=1 rlx; q0 rlx", "00", kAllowed, 0, "batty: two locations"},
    {"mixed+16", "o=0x1 rel | o0 acq; o1 rlx", "10", kAllowed, 0, "ours"},
};

} // namespace

std::span<const LitmusTest> litmus_tests()
{
    return kTests;
}

} // namespace stress::order
