// Records on an open connection; message_assembler.h joins them to messages. Pure; connection.h feeds bytes in and out,
// tests and fuzzers too. An object belongs to one thread at a time.
//
//   record   = length (3, big endian, clear) || AEAD(plain, associated = the 3 length bytes)
//   plain    = type (1) || stream (4, big endian) || payload
//   length   = bytes of the AEAD output: plain + tag (16); 21 .. 16,384 (control) or 65,536 (bulk)
//   type     = message type in the low 7 bits; 0x80: more records of this message follow
//   stream   = a request's number, repeated by its answer (the asker's numbers; answers have their own types); for
//              one-way messages a number of the sender's that tells apart messages whose records interleave
//
// A record's nonce is its number in its direction, never sent: a replayed, dropped, reordered or changed record does
// not authenticate. Each 2^20 records the direction's key moves on (Noise's REKEY), so a stolen key opens no older
// records. A direction ends with a goodbye message; an end without it is a truncation.
#pragma once

#include <optional>

#include "p2p/transport/cipher.h"

namespace quern::p2p::transport {

inline constexpr std::size_t kRecordPrefix = 3;
inline constexpr std::size_t kPlainHeader = 5;
inline constexpr std::size_t kMinRecord = kPlainHeader + crypto::kAeadTagSize;
inline constexpr std::size_t kMaxControlRecord = 16U << 10;
inline constexpr std::size_t kMaxBulkRecord = 64U << 10;
inline constexpr std::uint64_t kRekeyRecords = std::uint64_t{1} << 20;
inline constexpr std::uint8_t kMoreFlag = 0x80;

// Payload bytes that a record of at most `max_record` bytes carries.
[[nodiscard]] constexpr std::size_t max_payload(std::size_t max_record) { return max_record - kMinRecord; }

struct Frame {
    std::uint8_t type = 0;  // without kMoreFlag
    bool more = false;
    std::uint32_t stream = 0;
    BytesView payload;  // into the reader's buffer: valid until the next call
};

class FrameWriter {
public:
    FrameWriter(const Hash32& key, std::size_t max_record, std::uint64_t rekey_records = kRekeyRecords);
    // Appends one record to `out`. The caller keeps payload within max_payload(max_record).
    void write(const Frame& frame, Bytes& out);
    [[nodiscard]] std::size_t max_record() const { return max_record_; }

private:
    CipherState cipher_;
    std::size_t max_record_;
    std::uint64_t rekey_records_;
    Bytes plain_;
};

class FrameReader {
public:
    FrameReader(const Hash32& key, std::size_t max_record, std::uint64_t rekey_records = kRekeyRecords);

    // Where to put received bytes, at least one; then say how many came. The buffer is bounded by the largest record.
    [[nodiscard]] std::span<std::uint8_t> free_space();
    void received(std::size_t bytes);
    // The next whole record, nullopt while more bytes are needed. Errors, after which the connection is of no use:
    // frame.too_long, frame.too_short (both by the length bytes alone), frame.forged.
    [[nodiscard]] Expected<std::optional<Frame>> next();
    // What the end of input means here: success between records, frame.truncated inside one.
    [[nodiscard]] Status end_of_input() const;

private:
    CipherState cipher_;
    std::size_t max_record_;
    std::uint64_t rekey_records_;
    Bytes buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

}  // namespace quern::p2p::transport
