// Who goes first when there are more threads than processors: those that agree on blocks, before those that do what
// outsiders ask (checking what they submit, answering their questions). Else the more is submitted the later the blocks
// come, and every validator on the same machine waits for every other's queue. What peers pass on comes before what
// users submit: a block whose transactions the other validators have not checked yet is late by as much as they have to
// check.
#pragma once

namespace quern {
inline namespace base {

// Of ordinary threads' 0 to 19: at 10 a thread gets a tenth of what an ordinary one gets while both want to run, at 15
// a third of that.
inline constexpr int kRelayNice = 10;
inline constexpr int kBackgroundNice = 15;

// Puts the calling thread behind; calls after the first do nothing. Where the system knows no priorities of threads, or
// the process has a worse one already, nothing changes: it is about speed alone.
void stand_back(int nice = kBackgroundNice);

}  // namespace base
}  // namespace quern
