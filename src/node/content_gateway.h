// The content store behind chain/api's ContentGateway, for RPC's /content. Thread-safe.
#pragma once

#include "chain/api/content_gateway.h"
#include "content/store.h"

namespace quern::node {

class StoreGateway final : public chain::api::ContentGateway {
public:
    explicit StoreGateway(content::Store& store) : store_(store) {}  // outlives the gateway and its uploads

    [[nodiscard]] Expected<std::uint64_t> size(const Hash32& id) const override { return store_.size(id); }
    [[nodiscard]] Expected<Bytes> read(const Hash32& id, std::uint64_t offset, std::uint64_t length) const override {
        return store_.read(id, offset, length);
    }
    [[nodiscard]] Expected<std::unique_ptr<Upload>> begin_upload(const Hash32& id, std::uint64_t size) override;

private:
    content::Store& store_;
};

}  // namespace quern::node
