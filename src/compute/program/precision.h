// What matrix products of linear layers are computed in: one precision for all of a model, and others for layers that
// are named. Used by model builders. Plain values; thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace quern::compute::program {

// Of a product and the products of its gradients: in f32, or in bytes (quantized.h).
enum class Precision : std::uint8_t { f32, int8 };

// By the names of layers, or of what they are parts of: "h.0.mlp" is of "h.0.mlp.w_in", too. Parts end at a '.' or '/'.
using LayerPrecision = std::map<std::string, Precision, std::less<>>;

// The longest name in `given` that is the layer's or that of what holds it; given.end() without one.
[[nodiscard]] inline LayerPrecision::const_iterator find_precision(const LayerPrecision& given,
                                                                   std::string_view layer) {
    while (!layer.empty()) {
        if (const auto found = given.find(layer); found != given.end()) return found;
        const std::size_t end = layer.find_last_of("./");
        layer = layer.substr(0, end == std::string_view::npos ? 0 : end);
    }
    return given.end();
}

// What a layer has, and at the end which names no layer had. One object, one thread.
class PrecisionOfLayers {
public:
    // `given` outlives it.
    explicit PrecisionOfLayers(const LayerPrecision& given) : given_(given) {}

    [[nodiscard]] Precision of(std::string_view layer, Precision otherwise) {
        const auto found = find_precision(given_, layer);
        if (found == given_.end()) return otherwise;
        used_.insert(found->first);
        return found->second;
    }
    // The first name that decided nothing; null where there is none.
    [[nodiscard]] const std::string* unused() const {
        for (const auto& [name, precision] : given_)
            if (!used_.contains(name)) return &name;
        return nullptr;
    }

private:
    const LayerPrecision& given_;
    std::set<std::string_view> used_;
};

}  // namespace quern::compute::program
