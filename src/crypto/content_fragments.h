// Contents (crypto/content_id.h) as fragments: n contents of a k-th of the size, of which any k give the whole back
// (crypto/reed_solomon.h). So what one party may hide is held by many, each of whom keeps little. Not to be confused
// with shards, of which all are needed (crypto/content_shards.h). Used by compute/core, workers and nodes. Memory: a
// stripe, or kDecodedCells cells of each fragment; the leaf hashes besides of what ids are found for. Pure; an encoder
// belongs to one thread.
//
//   stripe s    = bytes [k C s, k C (s + 1)) of the content, C = 16 KiB, a transport leaf; the last may be shorter
//   data cell i = bytes [c i, c (i + 1)) of its stripe, c = C; of a shorter one of r bytes c = ceil(r / k), and zeros
//                 behind its end
//   fragment i  = cell i of each stripe, in their order: a content of fragment_bytes(size, k) bytes
//
// Fragment i < k holds each k-th leaf of the content as it is: their leaf hashes are the content's, but in the last
// stripe.
#pragma once

#include <functional>
#include <memory>

#include "crypto/content_id.h"
#include "crypto/reed_solomon.h"

namespace quern::crypto {

inline constexpr std::string_view kWrongContent = "fragments.wrong_content";  // they are fragments of something else

inline constexpr std::size_t kFragmentCellBytes = kContentLeafBytes;
// Cells of each fragment that a decoder reads at once: 1 MiB.
inline constexpr std::size_t kDecodedCells = 64;

// Of each fragment of a content of `size` bytes, k = `data` >= 1.
[[nodiscard]] constexpr std::uint64_t fragment_bytes(std::uint64_t size, unsigned data) {
    const std::uint64_t stripe = std::uint64_t{data} * kFragmentCellBytes;
    return size / stripe * kFragmentCellBytes + (size % stripe + data - 1) / data;
}

// Makes fragments of bytes that arrive in pieces of any length.
class FragmentEncoder {
public:
    // Is given the next bytes of a fragment, in their order: a cell at a time. Its error ends the encoding.
    using Sink = std::function<Status(unsigned fragment, BytesView cell)>;
    // Makes the fragments `wanted`, different ones. Errors: code.bad_shape, code.bad_cells.
    [[nodiscard]] static Expected<FragmentEncoder> make(CellCode code, std::vector<unsigned> wanted, Sink sink);
    // Errors: the sink's.
    [[nodiscard]] Status update(BytesView more);
    // Call once, after the last update.
    [[nodiscard]] Status finish();

private:
    friend class FragmentHasher;
    FragmentEncoder(CellCode code, std::vector<unsigned> wanted, Sink sink, CellMap parity);
    [[nodiscard]] Status encode(BytesView stripe, std::size_t cell_bytes);
    CellCode code_;
    std::vector<unsigned> wanted_;
    Sink sink_;
    CellMap parity_;                      // from the data to what is wanted of the rest
    std::vector<unsigned> parity_cells_;  // these
    Bytes open_;                          // of the stripe that is not whole
    Bytes made_;                          // parity cells of a stripe
};

// What a content and its fragments are called.
struct FragmentIds {
    std::uint64_t size = 0;
    Hash32 content;
    std::vector<Hash32> fragments;  // n
    bool operator==(const FragmentIds&) const = default;
};
// All ids of bytes that arrive in pieces of any length, in one pass: who checks an encoding, or announces one.
class FragmentHasher {
public:
    // Error: code.bad_shape.
    [[nodiscard]] static Expected<FragmentHasher> make(CellCode code);
    void update(BytesView more);
    // Call once, after the last update.
    [[nodiscard]] FragmentIds finish();

private:
    struct Leaves;
    FragmentHasher(std::shared_ptr<Leaves> leaves, FragmentEncoder encoder);
    std::shared_ptr<Leaves> leaves_;  // which the encoder's sink writes
    FragmentEncoder encoder_;
    std::uint64_t size_ = 0;
};

// A fragment that can be had: `read` gives exactly these bytes of it, which are those of its id.
struct GivenFragment {
    unsigned number = 0;  // below n
    std::function<Expected<Bytes>(std::uint64_t offset, std::uint64_t length)> read;
};
// Gives the sink the content `id` of `size` bytes, in its order, from k different fragments; those below k cost no
// arithmetic. That it is the content is known at the end: what the sink had before an error is nothing. Errors:
// code.bad_shape, code.bad_cells; fragments.wrong_size (a read gave another number of bytes);
// fragments.wrong_content (they are fragments of something else); the readers' and the sink's.
[[nodiscard]] Status decode_fragments(CellCode code, const Hash32& id, std::uint64_t size,
                                      std::span<const GivenFragment> given,
                                      const std::function<Status(BytesView)>& sink);

}  // namespace quern::crypto
