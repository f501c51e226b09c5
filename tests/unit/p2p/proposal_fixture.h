// A proposal as p2p sees it: bytes that say nothing to it, with the items of transactions among them.
#pragma once

#include "base/rlp.h"
#include "p2p/gossip/compact_proposal.h"
#include "test_node.h"

namespace quern::p2p::testing {

struct SampleProposal {
    // Typed envelopes and legacy ones in turn, different for each `salt`.
    explicit SampleProposal(std::size_t count, std::uint8_t salt = 0, std::size_t transaction_bytes = 150) {
        rlp::Writer items;
        for (std::size_t i = 0; i < count; ++i) {
            Bytes content(transaction_bytes, static_cast<std::uint8_t>(i));
            content[0] = 2;
            content[1] = salt;
            content[2] = static_cast<std::uint8_t>(i >> 8);
            content[3] = static_cast<std::uint8_t>(i);
            if (i % 2 == 1) {
                rlp::Writer legacy;
                legacy.begin_list().bytes(content).end_list();
                content = std::move(legacy).finish();
                items.raw(content);
            } else {
                items.bytes(content);
            }
            transactions.push_back(std::move(content));
        }
        bytes = Bytes(300, 7);
        begin = bytes.size();
        append(bytes, std::move(items).finish());
        end = bytes.size();
        append(bytes, Bytes(100, salt));
    }
    std::vector<Bytes> transactions;
    Bytes bytes;
    std::size_t begin = 0;
    std::size_t end = 0;
};

}  // namespace quern::p2p::testing
