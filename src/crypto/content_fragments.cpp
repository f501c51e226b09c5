#include "crypto/content_fragments.h"

#include <algorithm>
#include <numeric>

#include "base/ensure.h"

namespace quern::crypto {
namespace {

std::vector<unsigned> first_cells(unsigned count) {
    std::vector<unsigned> cells(count);
    std::iota(cells.begin(), cells.end(), 0U);
    return cells;
}

std::size_t stripe_bytes(CellCode code) { return std::size_t{code.data} * kFragmentCellBytes; }

}  // namespace

// --- Encoding --------------------------------------------------------------------------------------------------------

FragmentEncoder::FragmentEncoder(CellCode code, std::vector<unsigned> wanted, Sink sink, CellMap parity)
    : code_(code), wanted_(std::move(wanted)), sink_(std::move(sink)), parity_(std::move(parity)) {
    std::copy_if(wanted_.begin(), wanted_.end(), std::back_inserter(parity_cells_),
                 [&](unsigned each) { return each >= code_.data; });
    made_.resize(parity_cells_.size() * kFragmentCellBytes);
}

Expected<FragmentEncoder> FragmentEncoder::make(CellCode code, std::vector<unsigned> wanted, Sink sink) {
    if (!code.is_valid()) return fail("code.bad_shape");
    std::vector<unsigned> sorted = wanted;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end() ||
        (!sorted.empty() && sorted.back() >= code.total))
        return fail("code.bad_cells", "fragments that are wanted");
    std::vector<unsigned> parity;
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(parity),
                 [&](unsigned each) { return each >= code.data; });
    QUERN_TRY(CellMap map, CellMap::make(code, first_cells(code.data), parity));
    return FragmentEncoder(code, std::move(wanted), std::move(sink), std::move(map));
}

Status FragmentEncoder::encode(BytesView stripe, std::size_t cell_bytes) {
    std::vector<BytesView> data;
    for (unsigned i = 0; i < code_.data; ++i) data.push_back(stripe.subspan(i * cell_bytes, cell_bytes));
    std::vector<std::span<std::uint8_t>> parity;
    for (std::size_t i = 0; i < parity_cells_.size(); ++i)
        parity.push_back(std::span(made_).subspan(i * cell_bytes, cell_bytes));
    parity_.apply(data, parity);
    std::size_t next = 0;
    for (const unsigned each : wanted_)
        QUERN_CHECK(sink_(each, each < code_.data ? data[each] : BytesView(parity[next++])));
    return {};
}

Status FragmentEncoder::update(BytesView more) {
    const std::size_t whole = stripe_bytes(code_);
    while (!more.empty()) {
        if (open_.empty() && more.size() >= whole) {
            QUERN_CHECK(encode(more.first(whole), kFragmentCellBytes));
            more = more.subspan(whole);
            continue;
        }
        const std::size_t part = std::min(more.size(), whole - open_.size());
        append(open_, more.first(part));
        more = more.subspan(part);
        if (open_.size() < whole) continue;
        QUERN_CHECK(encode(open_, kFragmentCellBytes));
        open_.clear();
    }
    return {};
}

Status FragmentEncoder::finish() {
    if (open_.empty()) return {};
    const std::size_t cell_bytes = (open_.size() + code_.data - 1) / code_.data;
    open_.resize(cell_bytes * code_.data);
    return encode(open_, cell_bytes);
}

// --- Ids -------------------------------------------------------------------------------------------------------------

// A cell is a leaf of its fragment. Those of a stripe are hashed at once (crypto/sha256_batch.h).
struct FragmentHasher::Leaves {
    CellCode code;
    Bytes cells;  // of the open stripe
    std::vector<std::vector<Hash32>> fragments;
    std::vector<Hash32> content;

    void take(unsigned fragment, BytesView cell) {
        if (cell.size() < kFragmentCellBytes) {  // of the last stripe
            fragments[fragment].push_back(content_leaf(cell));
            return;
        }
        append(cells, cell);
        if (fragment + 1 < code.total) return;
        const std::vector<Hash32> leaves = content_leaves(cells);
        for (unsigned i = 0; i < code.total; ++i) fragments[i].push_back(leaves[i]);
        content.insert(content.end(), leaves.begin(), leaves.begin() + code.data);
        cells.clear();
    }
};

FragmentHasher::FragmentHasher(std::shared_ptr<Leaves> leaves, FragmentEncoder encoder)
    : leaves_(std::move(leaves)), encoder_(std::move(encoder)) {}

Expected<FragmentHasher> FragmentHasher::make(CellCode code) {
    if (!code.is_valid()) return fail("code.bad_shape");
    auto leaves = std::make_shared<Leaves>();
    leaves->code = code;
    leaves->fragments.resize(code.total);
    auto sink = [leaves](unsigned fragment, BytesView cell) -> Status {
        leaves->take(fragment, cell);
        return {};
    };
    QUERN_TRY(FragmentEncoder encoder, FragmentEncoder::make(code, first_cells(code.total), std::move(sink)));
    return FragmentHasher(std::move(leaves), std::move(encoder));
}

void FragmentHasher::update(BytesView more) {
    size_ += more.size();
    ensure(encoder_.update(more).has_value(), "leaves are taken");
}

FragmentIds FragmentHasher::finish() {
    const Bytes rest = encoder_.open_;
    ensure(encoder_.finish().has_value(), "leaves are taken");
    // A last stripe that lacks fewer bytes than it has data cells is cut as a whole one is, and padded.
    leaves_->content.resize(static_cast<std::size_t>((size_ - rest.size()) / kContentLeafBytes));
    for (const Hash32& leaf : content_leaves(rest)) leaves_->content.push_back(leaf);
    FragmentIds ids;
    ids.size = size_;
    ids.content = content_id_of_leaves(leaves_->content, size_);
    const std::uint64_t bytes = fragment_bytes(size_, encoder_.code_.data);
    for (const auto& leaves : leaves_->fragments) ids.fragments.push_back(content_id_of_leaves(leaves, bytes));
    return ids;
}

// --- Decoding --------------------------------------------------------------------------------------------------------

namespace {

class Decoder {
public:
    Decoder(CellCode code, std::span<const GivenFragment> given) : code_(code) {
        where_.resize(code.data, given.size());
        for (std::size_t i = 0; i < given.size(); ++i) {
            numbers_.push_back(given[i].number);
            if (given[i].number < code.data) where_[given[i].number] = i;
        }
        for (unsigned i = 0; i < code.data; ++i)
            if (where_[i] == given.size()) lost_.push_back(i);
    }
    // Of a valid code, k fragments.
    [[nodiscard]] Status prepare() {
        QUERN_TRY(map_, CellMap::make(code_, numbers_, lost_));
        return {};
    }
    // Bytes of the content that cells of `cell_bytes` at `offset` in each of the given parts hold, appended to `out`.
    void decode(std::span<const Bytes> parts, std::size_t offset, std::size_t cell_bytes, Bytes& out) const {
        const std::size_t begin = out.size();
        out.resize(begin + code_.data * cell_bytes);
        const auto cell = [&](unsigned i) { return std::span(out).subspan(begin + i * cell_bytes, cell_bytes); };
        std::vector<BytesView> given;
        for (const Bytes& part : parts) given.push_back(BytesView(part).subspan(offset, cell_bytes));
        for (unsigned i = 0; i < code_.data; ++i)
            if (where_[i] < parts.size()) std::copy(given[where_[i]].begin(), given[where_[i]].end(), cell(i).begin());
        std::vector<std::span<std::uint8_t>> lost;
        for (const unsigned i : lost_) lost.push_back(cell(i));
        map_.apply(given, lost);
    }

private:
    CellCode code_;
    std::vector<unsigned> numbers_;
    std::vector<std::size_t> where_;  // data cell i is part where_[i]; as many as there are parts: lost
    std::vector<unsigned> lost_;
    CellMap map_;
};

}  // namespace

Status decode_fragments(CellCode code, const Hash32& id, std::uint64_t size, std::span<const GivenFragment> given,
                        const std::function<Status(BytesView)>& sink) {
    if (!code.is_valid()) return fail("code.bad_shape");
    Decoder decoder(code, given);
    QUERN_CHECK(decoder.prepare());
    const std::uint64_t each = fragment_bytes(size, code.data);
    std::vector<Hash32> leaves;
    std::uint64_t left = size;
    for (std::uint64_t at = 0; at < each;) {
        const std::uint64_t length = std::min<std::uint64_t>(kDecodedCells * kFragmentCellBytes, each - at);
        std::vector<Bytes> parts;
        for (const GivenFragment& fragment : given) {
            QUERN_TRY(Bytes part, fragment.read(at, length));
            if (part.size() != length) return fail("fragments.wrong_size", std::to_string(part.size()) + " bytes");
            parts.push_back(std::move(part));
        }
        Bytes window;
        window.reserve(static_cast<std::size_t>(length) * code.data);
        for (std::size_t cell = 0; cell < length; cell += kFragmentCellBytes)
            decoder.decode(parts, cell,
                           std::min<std::size_t>(kFragmentCellBytes, static_cast<std::size_t>(length) - cell), window);
        window.resize(static_cast<std::size_t>(std::min<std::uint64_t>(window.size(), left)));
        left -= window.size();
        at += length;
        for (const Hash32& leaf : content_leaves(window)) leaves.push_back(leaf);
        QUERN_CHECK(sink(window));
    }
    if (content_id_of_leaves(leaves, size) != id) return fail(kWrongContent, to_hex0x(id));
    return {};
}

}  // namespace quern::crypto
