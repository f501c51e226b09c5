// SDBFT as a pure state machine: step(event, now) -> actions (actions.h), with no sockets, clocks, threads, files or
// randomness inside. The node's driver, the simulator and the tests drive this very object. The protocol and why it is
// safe: doc/consensus.md. Belongs to one thread.
//
// Source files: core.cpp (dispatch, recovery, outbox, timers), core_signing.cpp (own votes),
// core_listening.cpp (what others know of this key's votes), core_views.cpp (votes, certificates, views),
// core_blocks.cpp (proposals and blocks), core_early.cpp (messages of the next epoch), core_sync.cpp (finality, epochs,
// catching up).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <tuple>

#include "chain/consensus/sdbft/actions.h"
#include "chain/consensus/sdbft/hooks.h"
#include "chain/consensus/sdbft/limits.h"
#include "chain/consensus/sdbft/pacemaker.h"
#include "chain/consensus/sdbft/peer_rate.h"
#include "chain/consensus/sdbft/proposal_rules.h"
#include "chain/consensus/sdbft/view_votes.h"
#include "chain/params/params.h"

namespace quern::chain::consensus::sdbft {

struct CoreConfig {
    ChainIdentity chain;
    std::uint64_t epoch_length = 50;
    std::uint64_t min_block_ms = 200;
    std::uint64_t max_idle_ms = 1000;
    std::uint64_t delta_ms = 300;  // the assumed bound on a message's delay
    // The journal is rewritten with what is still needed when it has this many bytes, and has grown by half
    // as many since it was rewritten last, or to twice what it was while nothing becomes final.
    std::size_t journal_rewrite_bytes = 64U << 20;
    Limits limits = {};
    Hooks hooks = {};
};

struct CoreSetup {
    CoreConfig config;
    EpochSetup epoch;  // of the height after the tip
    std::optional<Committee> previous_committee;
    Tip tip;                // newest committed block
    Bytes tip_certificate;  // stored with it; empty for the genesis block, may be for blocks inside an epoch
    bool journal_found = false;
    std::vector<Record> records;  // the journal's
    // The operator says that no other copy of this key signs any more. The core listens as a key without any record
    // does (below), but takes over what it hears of its own votes instead of refusing.
    bool accept_missing_journal = false;
    // A key without any record of what it signed may have signed in a former life, on a disk that is gone. It asks the
    // members for the newest vote of its key that they have heard, and listens until a quorum (its own weight included)
    // has answered, for so long after that, and again after each of the first kBlankStartCertificates certificates that
    // it hears; a signature of its own in an answer, in any of them, or in a block, and it refuses as if the journal
    // were missing. A key with records asks too, and refuses (sdbft.other_signer) when others have heard newer votes:
    // journal and database may be a copy of long ago. It does not listen any longer than for the answers.
    std::uint64_t listen_ms = 0;
    // Who the peer is, as the transport proved it: an address of a key; nothing when it has left. Without the function
    // nobody's answer counts, and only a key that is a quorum by itself ever ends listening.
    std::function<std::optional<Bytes20>(PeerId peer)> address_of;
    // Whether a block's body (transactions, withdrawals) is the one that its header's roots name: the hash that is
    // voted for covers the header alone. Pure.
    std::function<bool(BytesView block)> body_matches;
    // A vote by our key that we do not know of means that another process has the key: then nothing is signed any more.
    // Off only where a test wants twins.
    bool detect_other_signer = true;
};

class Core {
public:
    // `signer` is null for a node that only follows; it and the scheme outlive the core. Errors: journal.bad_record,
    // journal.other_key, rlp.*, sdbft.wrong_epoch.
    [[nodiscard]] static Expected<std::unique_ptr<Core>> make(CoreSetup setup, const Signer* signer,
                                                              const Scheme& scheme);
    [[nodiscard]] std::vector<Action> step(const Event& event, const Time& now);

    // For status pages and tests.
    struct View {
        std::uint64_t epoch = 0;
        std::uint64_t view = 0;
        std::uint64_t last_finalized_view = 0;
        std::uint64_t backoff_steps = 0;
        Tip tip;
        std::size_t master = 0;
        std::size_t blocks_kept = 0;
        std::size_t block_bytes = 0;
        std::size_t views_kept = 0;
        std::size_t wanted_blocks = 0;
        std::size_t pending_messages = 0;
        std::size_t pending_bytes = 0;
        std::size_t pending_peers = 0;
        std::size_t peers_helped = 0;
        bool signs = false;
        std::string_view refuses_because;  // error name: sdbft.no_journal, sdbft.other_signer, or empty
    };
    [[nodiscard]] View status() const;

private:
    struct Own {  // what this key signed in one view
        struct Signed {
            OwnVote vote;
            std::uint64_t sequence = 0;  // of the Persist that makes it durable
        };
        std::array<std::optional<Signed>, 4> by_type;
        [[nodiscard]] std::optional<Signed>& of(VoteType t) { return by_type[static_cast<std::size_t>(t) - 1]; }
        [[nodiscard]] const std::optional<Signed>& of(VoteType t) const {
            return by_type[static_cast<std::size_t>(t) - 1];
        }
    };
    struct Proposal {
        Hash32 hash;
        std::optional<std::uint64_t> notarized_in;  // set when an epoch's last block is proposed again
        std::optional<std::uint64_t> parent_view;   // set by check_alone; 0 for an epoch's first block
        bool rejected = false;
        PeerId from = 0;
    };
    struct ViewState {
        ViewState(std::uint64_t epoch, std::uint64_t view) : votes(epoch, view) {}
        ViewVotes votes;
        std::optional<Certificate> notarization;
        std::optional<Certificate> nullification;
        std::optional<Certificate> finalization;
        std::optional<Proposal> proposal;
        std::set<std::size_t> convicted;  // members against whom evidence was given out already
        [[nodiscard]] std::optional<Certificate>& certificate(VoteType type) {
            return type == VoteType::notarize ? notarization : type == VoteType::nullify ? nullification : finalization;
        }
    };
    enum class Validity : std::uint8_t { unknown, validating, valid, invalid };
    struct BlockEntry {
        BlockInfo info;
        std::shared_ptr<const Bytes> bytes;  // shared with whoever sends it to a peer
        Validity validity = Validity::unknown;
        bool checked = false;    // by check_proposed
        bool certified = false;  // a quorum has signed it, or a descendant
        bool voted = false;      // by this node
    };
    struct Pending {  // goes out when `sequence` is durable
        std::uint64_t sequence = 0;
        std::vector<Bytes> messages;
        std::vector<VoteMessage> votes;  // our own, counted when they may leave
    };
    struct Parent {
        std::uint64_t view = 0;
        Tip tip;
        Bytes certificate;
        bool last_of_epoch = false;
    };

    // Of the next epoch; see core_early.cpp.
    using EarlyKey = std::pair<std::uint64_t, std::uint8_t>;  // view, type of vote
    struct Early {
        PeerId peer = 0;
        Bytes bytes;
    };
    struct Held {
        std::map<EarlyKey, Early> messages;
        std::size_t bytes = 0;
    };

    Core(CoreSetup setup, const Signer* signer, const Scheme& scheme);

    // core.cpp
    [[nodiscard]] Status restore(std::vector<Record> records);
    [[nodiscard]] Status check_own_signature(const OwnVote& vote) const;
    void restore_block(const BlockInfo& info, const Bytes& bytes);
    void start();
    void tick();
    void repeat();  // while stuck: own votes, what opened the view, open questions
    void on_persisted(std::uint64_t sequence);
    std::uint64_t persist(std::vector<Record> records, std::vector<Bytes> messages = {},
                          std::vector<VoteMessage> votes = {}, bool replace = false);
    void tidy_journal(bool committed);
    void rewrite_journal();
    void send_all(const Message& message);
    void send_to(PeerId peer, const Message& message);
    void send_any(const Message& message);
    void halt(Error error);
    // Stops the node (sdbft.invariant) when what must always hold does not. Never for what came from outside.
    void ensure(bool holds, std::string_view what);
    void schedule();
    void receive(PeerId peer, const Bytes& bytes);
    void dispatch(PeerId peer, Message message);
    using Wrong = action::Wrong;
    void misbehaved(PeerId peer, Wrong wrong, Error error);

    // core_signing.cpp
    [[nodiscard]] bool may_sign() const;
    [[nodiscard]] bool can_nullify() const;
    // The order in which an honest validator signs: by epoch, by view, and within a view PROPOSE, NOTARIZE, then
    // NULLIFY or FINALIZE (the numbers of the types).
    [[nodiscard]] static std::tuple<std::uint64_t, std::uint64_t, VoteType> position_of(const Vote& vote) {
        return {vote.epoch, vote.view, vote.type};
    }
    // The signing floor: whether the vote comes after the newest one that this key is known to have signed, in the
    // order in which an honest validator signs, and does not contradict it.
    [[nodiscard]] bool above_floor(const Vote& vote) const;
    [[nodiscard]] Own& own(std::uint64_t view) { return own_[{epoch_.epoch, view}]; }
    [[nodiscard]] const Own* find_own(std::uint64_t view) const;
    [[nodiscard]] bool has_signed(VoteType type, std::uint64_t view) const;
    // Halts (sdbft.contradiction) and returns nothing rather than contradict what was signed before.
    [[nodiscard]] std::optional<VoteMessage> sign(const Vote& vote);
    void cast(VoteType type, std::uint64_t view, const Hash32& hash, std::vector<Record> records = {});
    void nullify();
    void remember_own(const OwnVote& vote);
    void adopt(const OwnVote& vote);
    // A verified vote of a member: what it means if the member is this key.
    void check_own_key(const OwnVote& heard, std::size_t member);
    [[nodiscard]] std::optional<OwnVote> own_vote_in(BytesView encoded_certificate) const;
    // A key that listens looks for its own signature in what a block carries.
    void look_for_own_signature(BytesView encoded_certificate);
    void compare_journal_with_tip();
    void count_own_votes();

    // core_listening.cpp
    // Nothing is signed while it lasts.
    [[nodiscard]] bool listening() const;
    void start_listening();
    // Asks whoever has not answered yet, while a quorum has not.
    void ask_for_own_votes();
    void weigh_answers();
    // A vote of this key that a member has heard, verified.
    void hear_of_own(const OwnVote& vote);
    [[nodiscard]] bool asks() const { return blank_ || adopting_ || comparing_; }
    void on_vote_query(PeerId peer, const VoteQuery& query);
    void on_vote_answer(PeerId peer, const VoteAnswer& answer);
    // A verified vote of a member of this epoch or the one before: the newest is what a vote query is answered with.
    void hear(const Vote& vote, std::size_t member, const Signature& signature);
    [[nodiscard]] bool is_news(const Vote& vote, std::size_t member) const;
    void hear_signers(const Certificate& certificate);
    // A vote that is too old to be counted: nobody else may have heard it.
    void hear_late(PeerId peer, const VoteMessage& message);

    // core_views.cpp
    [[nodiscard]] ViewState& view_state(std::uint64_t view);
    [[nodiscard]] const ViewState* find_view(std::uint64_t view) const;
    [[nodiscard]] bool is_quorum(const ViewVotes::Tally& tally) const;
    void on_vote(PeerId peer, const VoteMessage& message);
    void count_vote(const Vote& vote, std::size_t member, const Signature& signature);
    // True when the certificate is valid and known now.
    bool accept(const Certificate& certificate, std::optional<PeerId> from, bool verified = false);
    void apply(const Certificate& certificate, std::optional<PeerId> from);
    void enter_view(std::uint64_t view, const Certificate* opener);
    // The notarization or finalization of a view, or null.
    [[nodiscard]] const Certificate* notarized(std::uint64_t view) const;
    [[nodiscard]] bool nullified(std::uint64_t view) const;

    // core_blocks.cpp
    void on_propose(PeerId peer, const ProposeMessage& message);
    void on_built(const event::Built& built);
    void on_validated(const event::Validated& validated);
    void on_forgotten(const event::Forgotten& forgotten);
    // Idempotent: go on with the current view as far as possible.
    void advance();
    void consider_proposal();
    [[nodiscard]] Expected<bool> proposal_ready(Proposal& proposal, const BlockEntry& entry);
    // What can be said of a block proposed in `view` without its parent, before any of it is kept: its header, its
    // height, the parent's certificate. The view in which the parent was notarized, 0 for an epoch's first block.
    // Errors: header.*, proposal.*, certificate.*, rlp.*.
    [[nodiscard]] Expected<std::uint64_t> check_alone(const BlockInfo& block, std::uint64_t view);
    [[nodiscard]] Expected<std::uint64_t> check_parent_certificate(const BlockInfo& block) const;
    [[nodiscard]] bool nullified_between(std::uint64_t from, std::uint64_t to);
    void try_propose();
    void propose(std::uint64_t parent_view, const Hash32& hash, const Bytes& block,
                 std::optional<Certificate> justification);
    [[nodiscard]] std::optional<Parent> find_parent();
    enum class Inserted : std::uint8_t { there, wrong_body, final_height, no_room };
    // `certified`: a quorum has signed it, or a descendant; else it is a master's proposal. The last is nobody's fault.
    [[nodiscard]] Inserted insert_block(const BlockInfo& info, const Bytes& bytes, bool certified,
                                        bool final_range = false);
    void make_room_for(const std::vector<BlockHead>& range);
    [[nodiscard]] bool is_of_no_use(const Hash32& hash, std::uint64_t view) const;
    [[nodiscard]] bool is_certified(const Hash32& hash) const;
    void tidy_blocks();
    [[nodiscard]] std::optional<Tip> known_tip(const Hash32& hash) const;
    // Whether the executor can build on the block; asks it to validate what is missing.
    [[nodiscard]] bool ensure_valid(const Hash32& hash);
    [[nodiscard]] bool is_epoch_base(const Tip& tip) const;

    // core_early.cpp
    void foresee_next_epoch();
    void hold_for_next_epoch(PeerId peer, const Message& message, const Bytes& bytes);
    void hold(std::size_t member, const EarlyKey& key, PeerId peer, const Bytes& bytes);
    [[nodiscard]] bool is_held(std::size_t member, const EarlyKey& key) const;
    void forget_held_proposals();
    void replay_held();

    // core_sync.cpp
    void on_finalized(const Certificate& certificate);
    void try_commit();
    void on_committed(const event::Committed& committed);
    void switch_epoch(EpochSetup next);
    void want_block(const Hash32& hash);
    void retry_wanted();
    void ask_certificates(std::uint64_t first, std::uint64_t last);
    void on_block_answer(PeerId peer, const BlockAnswer& answer);
    void on_wrong_body(PeerId peer, const Hash32& hash);
    void on_certificate_query(PeerId peer, const CertificateQuery& query);
    void on_range_answer(PeerId peer, const RangeAnswer& answer);
    void help(PeerId peer, bool older_epoch);
    void ask_range(std::optional<PeerId> peer);

    CoreConfig config_;
    EpochHeights heights_;
    const Signer* signer_;
    const Scheme& scheme_;
    EpochSetup epoch_;
    std::optional<Committee> previous_committee_;
    std::size_t index_ = 0;  // of our key in the committee, or its size
    std::string_view refuses_because_;
    bool detect_other_signer_ = true;
    bool blank_ = false;     // nothing is known that this key has signed
    bool adopting_ = false;  // its own votes that others have heard are taken over, until it signs again
    // The journal's votes are those of this key's past, but the disk may be an old copy: nothing is signed until a
    // quorum has heard of none that is newer.
    bool comparing_ = false;
    std::uint64_t listen_ms_ = 0;
    bool told_ = false;                             // a quorum of this epoch has said what it heard of this key
    std::optional<std::uint64_t> listen_until_ms_;  // absent: no quorum has answered since the start
    std::size_t listens_left_;
    std::optional<std::uint64_t> ask_votes_at_;
    std::map<crypto::PublicKey, std::uint64_t> answered_;  // members, and the epoch they were in
    std::vector<std::optional<OwnVote>> heard_;            // by member: the newest vote of this epoch
    std::vector<std::optional<OwnVote>> heard_before_;     // and of the one before
    std::function<std::optional<Bytes20>(PeerId)> address_of_;
    std::optional<OwnVote> newest_own_;  // the signing floor; outlives rewriting the journal
    std::function<bool(BytesView)> body_matches_;
    bool restoring_ = false;
    bool started_ = false;
    bool halted_ = false;

    std::uint64_t view_ = 0;
    std::uint64_t entered_wall_ms_ = 0;
    std::uint64_t entered_ms_ = 0;
    std::optional<Certificate> opener_;  // that opened the current view
    std::uint64_t last_final_view_ = 0;
    std::map<std::uint64_t, ViewState> views_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, Own> own_;   // by epoch, view
    std::optional<std::pair<std::uint64_t, Bytes>> own_proposal_;  // of this epoch: view, message
    Pacemaker pacemaker_;

    Tip tip_;
    Bytes tip_certificate_;
    Bytes base_certificate_;            // the finalization that closed the epoch before
    std::optional<Certificate> final_;  // the newest finalization
    // Of the range that is being committed: the newest one may be of a block that is still far away.
    std::optional<Certificate> range_final_;
    std::optional<Hash32> committing_;
    std::map<Hash32, BlockEntry> blocks_;
    struct Building {
        std::uint64_t view = 0;
        std::uint64_t parent_view = 0;
    };
    std::optional<Building> building_;
    bool transactions_wait_ = false;
    std::optional<std::uint64_t> propose_at_;
    std::optional<std::uint64_t> reconsider_at_;

    std::set<Hash32> wanted_;
    std::optional<std::uint64_t> wanted_retry_at_;
    std::optional<PeerId> answering_;  // the peer whose answer is being handled: the next question goes there
    // Who gave a range and says it has more, and the last height of that range: asked once when that is committed.
    std::optional<std::pair<PeerId, std::uint64_t>> more_at_;
    std::set<std::pair<PeerId, Hash32>> wrong_bodies_;  // whose answer to this wish had another's body
    PeerRate helped_;
    PeerRate certificates_given_;
    std::optional<std::uint64_t> range_asked_at_;
    std::optional<std::pair<std::uint64_t, std::uint64_t>> certificates_asked_;  // view, when
    std::optional<EpochSetup> next_epoch_;
    bool next_masters_known_ = false;                                 // next_epoch_'s seed is final
    std::map<std::size_t, Held> held_;                                // by member
    std::optional<std::pair<PeerId, Certificate>> held_certificate_;  // the newest
    bool verified_ = false;                                           // what is handled was verified when it came

    std::uint64_t next_sequence_ = 1;
    std::uint64_t durable_sequence_ = 0;
    std::size_t journal_bytes_ = 0;         // written since it was rewritten, and what was rewritten
    std::size_t journal_needed_bytes_ = 0;  // when it was rewritten last
    std::deque<Pending> outbox_;
    std::optional<std::uint64_t> wake_at_;
    Time now_;
    std::vector<Action> actions_;
};

}  // namespace quern::chain::consensus::sdbft
