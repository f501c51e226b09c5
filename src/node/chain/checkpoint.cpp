#include "node/chain/checkpoint.h"

#include <charconv>

namespace quern::node {

Expected<Checkpoint> parse_checkpoint(std::string_view text) {
    const auto bad = [&] { return fail("node.bad_checkpoint", "HEIGHT:0xHASH expected, not " + std::string(text)); };
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) return bad();
    Checkpoint checkpoint;
    const std::string_view height = text.substr(0, colon);
    const auto parsed = std::from_chars(height.data(), height.data() + height.size(), checkpoint.number);
    if (parsed.ec != std::errc() || parsed.ptr != height.data() + height.size()) return bad();
    std::string_view hash = text.substr(colon + 1);
    if (hash.starts_with("0x")) hash.remove_prefix(2);
    const auto decoded = fixed_from_hex<Hash32::kSize>(hash);
    if (!decoded) return bad();
    checkpoint.hash = *decoded;
    return checkpoint;
}

}  // namespace quern::node
