#include "p2p/transport/frames.h"

#include <algorithm>

#include "base/big_endian.h"

namespace quern::p2p::transport {
namespace {

constexpr std::size_t kFirstBuffer = 4096;

}  // namespace

FrameWriter::FrameWriter(const Hash32& key, std::size_t max_record, std::uint64_t rekey_records)
    : cipher_(CipherState::Direction::seal, key), max_record_(max_record), rekey_records_(rekey_records) {}

void FrameWriter::write(const Frame& frame, Bytes& out) {
    const std::size_t length = kMinRecord + frame.payload.size();
    plain_.clear();
    plain_.push_back(static_cast<std::uint8_t>(frame.type | (frame.more ? kMoreFlag : 0)));
    append_big_endian(plain_, frame.stream, sizeof frame.stream);
    append(plain_, frame.payload);
    const std::array<std::uint8_t, kRecordPrefix> prefix = {static_cast<std::uint8_t>(length >> 16),
                                                            static_cast<std::uint8_t>(length >> 8),
                                                            static_cast<std::uint8_t>(length)};
    append(out, prefix);
    cipher_.seal(prefix, plain_, out);
    if (cipher_.counter() % rekey_records_ == 0) cipher_.rekey();
}

FrameReader::FrameReader(const Hash32& key, std::size_t max_record, std::uint64_t rekey_records)
    : cipher_(CipherState::Direction::open, key), max_record_(max_record), rekey_records_(rekey_records) {}

std::span<std::uint8_t> FrameReader::free_space() {
    if (begin_ != 0) {
        std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                  buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
        end_ -= begin_;
        begin_ = 0;
    }
    // Doubles only when bytes have filled it, so an idle connection keeps a small buffer.
    if (end_ == buffer_.size())
        buffer_.resize(std::min(std::max(2 * buffer_.size(), kFirstBuffer), max_record_ + kRecordPrefix));
    return std::span(buffer_).subspan(end_);
}

void FrameReader::received(std::size_t bytes) { end_ += bytes; }

Expected<std::optional<Frame>> FrameReader::next() {
    if (end_ - begin_ < kRecordPrefix) return std::nullopt;
    const std::uint8_t* prefix = buffer_.data() + begin_;
    const std::size_t length = from_big_endian(BytesView(prefix, kRecordPrefix));
    if (length > max_record_) return fail("frame.too_long", std::to_string(length) + " bytes");
    if (length < kMinRecord) return fail("frame.too_short", std::to_string(length) + " bytes");
    if (end_ - begin_ < kRecordPrefix + length) return std::nullopt;
    const auto sealed = std::span(buffer_).subspan(begin_ + kRecordPrefix, length);
    const auto plain = cipher_.open(BytesView(prefix, kRecordPrefix), sealed);
    if (!plain) return fail("frame.forged", "record " + std::to_string(cipher_.counter() - 1));
    if (cipher_.counter() % rekey_records_ == 0) cipher_.rekey();
    begin_ += kRecordPrefix + length;
    Frame frame;
    frame.type = (*plain)[0] & static_cast<std::uint8_t>(~kMoreFlag);
    frame.more = ((*plain)[0] & kMoreFlag) != 0;
    frame.stream = static_cast<std::uint32_t>(from_big_endian(BytesView(*plain).subspan(1, kPlainHeader - 1)));
    frame.payload = BytesView(*plain).subspan(kPlainHeader);
    return frame;
}

Status FrameReader::end_of_input() const {
    if (begin_ == end_) return {};
    return fail("frame.truncated", "the connection ended inside a record");
}

}  // namespace quern::p2p::transport
