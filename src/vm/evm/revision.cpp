#include "vm/evm/revision.h"

#include <utility>

namespace quern::vm::evm {
namespace {

constexpr std::array<std::string_view, kRevisions> kNames{
    "Frontier",       "Homestead",         "EIP150",   "EIP158", "Byzantium",
    "Constantinople", "ConstantinopleFix", "Istanbul", "Berlin", "London",
    "Paris",          "Shanghai",          "Cancun",   "Prague", "Osaka",
};

constexpr std::array<std::pair<std::string_view, Revision>, 5> kOtherNames{{
    {"MuirGlacier", Revision::istanbul},
    {"ArrowGlacier", Revision::london},
    {"GrayGlacier", Revision::london},
    {"Merge", Revision::paris},
    {"Petersburg", Revision::petersburg},
}};

}  // namespace

std::string_view fixture_name(Revision revision) { return kNames[static_cast<std::size_t>(revision)]; }

std::optional<Revision> revision_of(std::string_view fixture_name) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i] == fixture_name) return static_cast<Revision>(i);
    for (const auto& [name, revision] : kOtherNames)
        if (name == fixture_name) return revision;
    return std::nullopt;
}

}  // namespace quern::vm::evm
