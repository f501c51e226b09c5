// The parts of a run: what its agents know beside the chain, and what they do in each state of a task. One thread.
#pragma once

#include <optional>

#include "sim/market/money.h"
#include "sim/market/run.h"
#include "sim/market/training.h"

namespace quern::sim::market {

class MarketRun {
public:
    explicit MarketRun(const RunSpec& spec);
    RunResult run();

private:
    using Round = std::pair<std::uint64_t, std::uint32_t>;  // of a task
    // What somebody has proved, and how much of it is made up.
    struct Proven {
        std::shared_ptr<const History> history;
        Segments faked;
        std::size_t purse = 0;
        bool withheld = false;  // nobody but its purse can look at it
    };
    struct Accusation {
        const Account* by = nullptr;
        Round round;
        types::ChallengeRevealPayload reveal;
        std::shared_ptr<const History> rival;  // what it stands for
        Segments faked;                        // of that
        bool right = false;
        std::uint64_t committed_at = 0;
        bool revealed = false;
    };
    struct Sealed {
        const Account* by = nullptr;
        std::uint64_t task = 0;
        std::uint8_t place = 0;
        Hash32 root;
        Hash32 salt;
        bool opened = false;
    };
    using ReportKey =
        std::tuple<std::uint64_t, std::uint32_t, std::uint64_t, std::uint8_t>;  // task, round, draw, place
    struct Verdict {
        types::Address verifier;
        Training::Report report;
        Verifying how = Verifying::replays;
        std::shared_ptr<const History> rival;  // of a FAIL
        Segments faked;                        // of that
        bool right = false;                    // of a FAIL: there is something made up
    };

    // --- run.cpp: accounts, blocks, bookkeeping
    void set_up();
    void block();
    void submit();
    void act(std::uint64_t id);
    void close();
    template <types::Record T>
    bool send(const Account& from, NativeKind kind, const T& payload) {
        return book(from, chain_.send(from.address, kind, types::encode_record(payload)));
    }
    bool book(const Account& from, const exec::Result& result);
    void book_logs();
    [[nodiscard]] const Account* account_at(const types::Address& address) const;
    [[nodiscard]] const Strategy& strategy_of(const Account& account) const {
        return spec_.groups[account.purse].strategy;
    }
    [[nodiscard]] Ledger& ledger_of(const Account& account) { return result_.purses[account.purse]; }
    void compute(const Account& account, const Uint256& work) { ledger_of(account).work += work; }
    [[nodiscard]] Uint256 free_bond(Role role, const Account& account) const;
    [[nodiscard]] bool by_chance(std::uint64_t percent) { return rng_.below(100) < percent; }
    [[nodiscard]] Uint256 segment_work() const;

    // --- agents.cpp: solvers and verifiers
    void bid(const TaskClaim& live);
    void train(const Account& solver, const TaskClaim& live);
    void answer_custody(const TaskClaim& live);
    void commit_reports(const TaskClaim& live);
    void reveal_reports(const TaskClaim& live);
    void open_reports(const TaskClaim& live);
    Verifying how(const Account& verifier, const TaskClaim& live, std::uint8_t place);
    Verdict& verdict(const Account& verifier, const TaskClaim& live, std::uint8_t place);
    [[nodiscard]] bool has_majority(const TaskClaim& live, std::size_t purse) const;
    [[nodiscard]] bool is_forced(const Verdict& verdict, const TaskClaim& live) const;

    // --- watchers.cpp: watchers, whistleblowers, games
    void watch(const TaskClaim& live);
    void watch_report(const Account& watcher, const TaskClaim& live, const types::VerifierReport& report);
    void open_seals(const TaskClaim& live);
    void retrain(const TaskClaim& live);
    void accuse(const Account& by, const TaskClaim& live, std::uint32_t target, const Hash32& claim, Bytes opening,
                std::shared_ptr<const History> rival, const Segments& faked = {});
    bool commit_accusation(const Account& by, const TaskClaim& live, std::uint32_t target, const Hash32& claim,
                           Bytes opening, std::shared_ptr<const History> rival, const Segments& faked);
    void reveal_accusations(const TaskClaim& live);
    void play(const TaskClaim& live);
    // Whether it has moved. `faked`: of `history`, what its party has made up.
    bool play(const Account& who, const TaskClaim& live, std::uint64_t dispute, core::Side side, const History& history,
              const Segments& faked);
    void lose(const Account& who, const TaskClaim& live, const types::Dispute& dispute, bool defends);
    bool waits_for_friend(const Account& solver, const TaskClaim& live);
    [[nodiscard]] bool is_accused(const TaskClaim& live, std::uint32_t target) const;

    RunSpec spec_;
    RunResult result_;
    SeededRng rng_;
    MarketChain chain_;
    Training training_;
    std::vector<Account> accounts_;
    std::map<types::Address, std::size_t> by_address_;
    Account keeper_;  // sends ticks
    types::TaskSubmitPayload task_;
    std::shared_ptr<const History> truth_;
    std::vector<std::uint64_t> live_;  // tasks that are in the state
    std::uint64_t submitted_ = 0;
    std::map<std::uint64_t, const Account*> submitters_;
    std::set<Round> bids_;
    std::map<Round, Proven> proven_;
    std::map<ReportKey, Verdict> verdicts_;
    std::set<std::pair<ReportKey, types::Address>> watched_;
    std::set<std::pair<ReportKey, std::size_t>> computed_;  // by watchers of a purse
    std::set<std::pair<Round, std::uint8_t>> retrained_;    // unasked, in doubt
    std::set<Round> strawed_;
    std::vector<Accusation> accusations_;
    std::vector<Sealed> seals_;
    std::map<std::pair<std::uint64_t, core::Side>, core::DisputeStrategy> games_;
};

}  // namespace quern::sim::market
