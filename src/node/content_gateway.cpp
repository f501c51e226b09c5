#include "node/content_gateway.h"

#include "base/log.h"

namespace quern::node {
namespace {

class LoggedUpload final : public chain::api::ContentGateway::Upload {
public:
    LoggedUpload(std::unique_ptr<content::Store::Upload> upload, const Hash32& id, std::uint64_t size)
        : upload_(std::move(upload)), id_(id), size_(size) {}
    Status append(BytesView bytes) override { return upload_->append(bytes); }
    Status finish() override {
        QUERN_CHECK(upload_->finish());
        log::info(log::Category::content, "stored id={} bytes={}", to_hex(id_), size_);
        return {};
    }

private:
    std::unique_ptr<content::Store::Upload> upload_;
    Hash32 id_;
    std::uint64_t size_;
};

}  // namespace

Expected<std::unique_ptr<StoreGateway::Upload>> StoreGateway::begin_upload(const Hash32& id, std::uint64_t size) {
    QUERN_TRY(auto upload, store_.begin_upload(id, size));
    return std::unique_ptr<Upload>(std::make_unique<LoggedUpload>(std::move(upload), id, size));
}

}  // namespace quern::node
