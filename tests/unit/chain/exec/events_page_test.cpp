// doc/market.md tells those who follow logs what the events' signatures are: it says what is emitted here.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/fs.h"
#include "chain/exec/handlers/events.h"
#include "chain/types/abi.h"
#include "chain/types/post_event.h"
#include "chain/types/probe_event.h"

namespace quern::chain::exec {
namespace {

using types::KindGroup;

template <class Event>
std::string row(KindGroup group) {
    const std::string address = to_hex(types::group_address(group));
    return "| `0x…" + address.substr(address.size() - 4) + "` | `" + types::abi::event_signature<Event>() + "` | " +
           std::to_string(Event::kIndexed) + " |";
}

TEST(EventsPage, says_what_is_emitted) {
    using namespace events;
    const std::set<std::string> rows{
        row<ValidatorCreated>(KindGroup::staking),
        row<Delegated>(KindGroup::staking),
        row<Undelegated>(KindGroup::staking),
        row<StakeWithdrawn>(KindGroup::staking),
        row<ValidatorConvicted>(KindGroup::staking),
        row<EvidenceRewarded>(KindGroup::staking),
        row<EvidenceCommitted>(KindGroup::staking),
        row<EvidenceReleased>(KindGroup::staking),
        row<BondChanged>(KindGroup::roles),
        row<BondLocked>(KindGroup::roles),
        row<BondReleased>(KindGroup::roles),
        row<CapacityDeclared>(KindGroup::roles),
        row<Slashed>(KindGroup::roles),
        row<TaskSubmitted>(KindGroup::tasks),
        row<TaskStateChanged>(KindGroup::tasks),
        row<ClaimStateChanged>(KindGroup::tasks),
        row<BidPlaced>(KindGroup::tasks),
        row<BidDisplaced>(KindGroup::tasks),
        row<SolverAssigned>(KindGroup::tasks),
        row<CheckpointPosted>(KindGroup::tasks),
        row<Paid>(KindGroup::tasks),
        row<LimitsFound>(KindGroup::tasks),
        row<TaskDeleted>(KindGroup::tasks),
        row<VerifierDrawn>(KindGroup::verification),
        row<CustodianDrawn>(KindGroup::verification),
        row<CustodyReceived>(KindGroup::verification),
        row<ProfilerDrawn>(KindGroup::verification),
        row<ProfileCommitted>(KindGroup::verification),
        row<ProfileRevealed>(KindGroup::verification),
        row<ReportCommitted>(KindGroup::verification),
        row<ReportRevealed>(KindGroup::verification),
        row<types::ProbesRevealed>(KindGroup::verification),
        row<WatchSealed>(KindGroup::verification),
        row<ReportOpened>(KindGroup::verification),
        row<ErrorFound>(KindGroup::verification),
        row<ChallengeCommitted>(KindGroup::disputes),
        row<ChallengeReleased>(KindGroup::disputes),
        row<DisputeOpened>(KindGroup::disputes),
        row<DisputeMoved>(KindGroup::disputes),
        row<types::DisputePosted>(KindGroup::disputes),
        row<DisputeClosed>(KindGroup::disputes),
        row<DataChallenged>(KindGroup::disputes),
        row<DataAnswered>(KindGroup::disputes),
    };
    constexpr std::size_t kMostBytes = std::size_t{1} << 20;
    const auto page = fs::read_text_file(QUERN_MARKET_PAGE, kMostBytes);
    ASSERT_TRUE(page);
    std::set<std::string> said;
    std::istringstream lines(*page);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("| `0x…51") && line.find('(') != std::string::npos) said.insert(line);
    EXPECT_EQ(said, rows);
    // None is left out above: those of the handlers, and two that others can read, too.
    const auto header = fs::read_text_file(QUERN_EVENTS_HEADER, kMostBytes);
    ASSERT_TRUE(header);
    std::size_t declared = 2;
    for (std::size_t at = 0; (at = header->find("kEvent = ", at)) != std::string::npos; ++at) ++declared;
    EXPECT_EQ(declared, rows.size());
}

}  // namespace
}  // namespace quern::chain::exec
