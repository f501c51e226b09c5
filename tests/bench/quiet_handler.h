// What a bench case gives p2p::Network when it answers nobody: nothing is wanted and nothing is had. What is measured
// is the consensus message, which each case takes as it likes. Called on the network's thread.
#pragma once

#include "p2p/network.h"

namespace quern::bench {

struct QuietHandler : p2p::NetworkHandler {
    bool wants_transaction(const p2p::messages::ShortId&) override { return false; }
    void transactions(const Bytes20&, std::vector<Bytes>) override {}
    std::optional<Bytes> find_transaction(const p2p::messages::ShortId&) override { return std::nullopt; }
    bool wants_block(const Hash32&, std::uint64_t) override { return false; }
    void block(const Bytes20&, p2p::messages::BlockAnswer) override {}
    void get_block(const Bytes20&, const p2p::messages::GetBlock&, p2p::Responder) override {}
    void get_block_transactions(const Bytes20&, const p2p::messages::GetBlockTransactions&, p2p::Responder) override {}
    void get_certificate(const Bytes20&, const p2p::messages::GetCertificate&, p2p::Responder) override {}
    void get_range(const Bytes20&, const p2p::messages::GetRange&, p2p::Responder) override {}
};

}  // namespace quern::bench
