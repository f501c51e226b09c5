// What goes into the SDBFT core and what comes out. A driver that owns a thread feeds one event at a time to
// Core::step and carries out the actions in their order; it may do the slow ones elsewhere and feed their answers
// later, in any order unless stated. Plain values; thread-safe.
//
// action          answer (event)      what the driver does
// Send            -                   hands the bytes to p2p; may be lost
// AskRange        Ranged, Received    asks peers for final blocks; hands over what follows the tip, from its own memory
//                                     or as a peer's RangeAnswer. May do nothing when enough questions are open
// AskBlock        Received            asks a peer for one block, final or not (a BlockQuery, a BlockAnswer)
// Persist         Persisted           appends (or replaces) the journal and syncs; in order, Persisted(n) means that
//                                     all up to n are durable. On failure it stops the node
// WakeAt          TimePassed          replaces an earlier one
// Build           Built, BuildFailed  makes a block on request.parent, whose state the executor has
// Validate        Validated           executes the block on its parent, which is the tip or valid already; the
//                                     executor keeps the resulting state until the height is committed
// Commit          Committed           makes the block the chain's newest, durably, executing it if it was not yet. On
//                                     failure it stops the node: a final block is invalid here
// Keep            -                   stores the certificate for the evidence window
// Convict         -                   sends an evidence transaction
// Misbehaved      -                   scores the peer
// ServeBlock      -                   answers the peer with a BlockAnswer: for this block, which is not final yet, or
// for
//                                     a committed one, if there. Whoever asks may not read: what waits needs a bound
// ServeRange      -                   answers the peer with a RangeAnswer of committed blocks, if there are any
// Halt            -                   stops the node
#pragma once

#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "chain/consensus/sdbft/epoch.h"
#include "chain/consensus/sdbft/evidence.h"
#include "chain/consensus/sdbft/journal.h"
#include "chain/consensus/sdbft/messages.h"
#include "chain/consensus/terms.h"

namespace quern::chain::consensus::sdbft {

using PeerId = std::uint64_t;

struct BlockRequest {
    Tip parent;
    std::uint64_t epoch = 0;
    std::uint64_t view = 0;
    std::uint64_t timestamp_ms = 0;
    Hash32 beacon;
    Bytes vrf_proof;
    Bytes parent_certificate;
    Hash32 committee_hash;
    Hash32 next_committee_hash;
};

namespace event {
struct Started {};
struct Received {
    PeerId peer = 0;
    Bytes message;
};
// As a RangeAnswer that was received, of any length: a stretch that only the finalization of a late block makes final
// may be longer than a message.
struct Ranged {
    PeerId peer = 0;  // who gave the finalization
    RangeAnswer range;
};
struct TimePassed {};
struct TransactionsWait {  // the mempool has, or no longer has, something to put in a block
    bool waiting = false;
};
struct Persisted {
    std::uint64_t sequence = 0;
};
struct Built {
    std::uint64_t view = 0;  // the request's
    Bytes block;
};
struct BuildFailed {
    std::uint64_t view = 0;
};
struct Validated {
    Hash32 hash;
    bool valid = false;
};
// What the executor knew of the block, or was asked about it, is gone: it is to be validated again when it matters.
struct Forgotten {
    Hash32 hash;
};
struct Committed {
    Tip tip;
    std::optional<EpochSetup> next_epoch;  // set for an epoch's last block, and only then
};
}  // namespace event
using Event = std::variant<event::Started, event::Received, event::Ranged, event::TimePassed, event::TransactionsWait,
                           event::Persisted, event::Built, event::BuildFailed, event::Validated, event::Forgotten,
                           event::Committed>;

namespace action {
enum class Target : std::uint8_t { all, one, any };  // each peer; the peer named; some peer that the driver picks
struct Send {
    Target target = Target::all;
    PeerId peer = 0;
    Bytes message;
};
// `peer` is somebody who proved to have what is next to it: the driver may ask another. Without one it picks.
struct AskRange {
    std::uint64_t first_height = 0;
    std::optional<PeerId> peer;
};
struct AskBlock {
    Hash32 hash;
    std::optional<PeerId> peer;
};
struct Persist {
    std::uint64_t sequence = 0;
    std::vector<Record> records;
    bool replace = false;  // the records are all that is still needed
};
struct WakeAt {
    std::uint64_t monotonic_ms = 0;
};
struct Build {
    BlockRequest request;
};
// An answer that nobody waits for any more may be left out (Forgotten): a block that was asked for in a later view, or
// is to be built in one, on another parent takes its place.
struct Validate {
    Hash32 hash;
    Bytes block;
    Hash32 parent;
    std::uint64_t epoch = 0;  // epoch and view in which the core asks, not the block's
    std::uint64_t view = 0;
};
struct Commit {
    Hash32 hash;
    Bytes block;
    std::optional<Certificate> certificate;  // a finalization of this block; ancestors of one have none of their own
};
struct Keep {
    Certificate certificate;
};
struct Convict {
    Evidence evidence;
};
// What kind of wrong a peer did; the error's name is for people.
enum class Wrong : std::uint8_t {
    form,       // no message, or not one of the form that it must have
    block,      // a block, or several, that the rules forbid: its header, body, place or what it does
    consensus,  // signatures, certificates, members, proposals
};
struct Misbehaved {
    PeerId peer = 0;
    Wrong wrong = Wrong::consensus;
    Error error;
};
struct ServeBlock {
    PeerId peer = 0;
    Hash32 hash;
    std::shared_ptr<const Bytes> block;  // null: the chain's store has it or nobody
};
struct ServeRange {
    PeerId peer = 0;
    std::uint64_t first_height = 0;
};
struct Halt {
    Error error;
};
}  // namespace action
using Action = std::variant<action::Send, action::AskRange, action::AskBlock, action::Persist, action::WakeAt,
                            action::Build, action::Validate, action::Commit, action::Keep, action::Convict,
                            action::Misbehaved, action::ServeBlock, action::ServeRange, action::Halt>;

}  // namespace quern::chain::consensus::sdbft
