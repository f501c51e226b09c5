#include "bench/architectures.h"

#include "support/training_game.h"

namespace quern::bench {

using namespace compute::program;

Architecture transformer(const TransformerSpec& spec, std::uint32_t batch) {
    Architecture architecture = test::demo_architecture(1'024);
    architecture.model = spec;
    architecture.data[0].elements = std::uint64_t{1'024} * spec.context + 1;
    architecture.batch = batch;
    return architecture;
}

Architecture reference_transformer() { return transformer({4, 128, 4, 128, 4, 98}, 32); }

Architecture image_network(const std::vector<std::uint32_t>& channels, bool halved_at_end) {
    const Window2d three{{3, 3}, {1, 1}, {1, 1}, {1, 1}};
    const PoolLayer halved{PoolLayer::Kind::max, {{2, 2}, {2, 2}, {0, 0}, {1, 1}}};
    Architecture architecture = test::image_architecture({32, 32}, 10, 256);
    auto& model = std::get<LayersSpec>(architecture.model);
    for (std::size_t i = 0; i < channels.size(); ++i) {
        model.layers.emplace_back(ConvLayer{channels[i], three});
        model.layers.emplace_back(Activation::relu);
        if (halved_at_end || i + 1 < channels.size()) model.layers.emplace_back(halved);
    }
    model.layers.emplace_back(GlobalPoolLayer{});
    model.layers.emplace_back(LinearLayer{10});
    architecture.batch = 32;
    return architecture;
}

}  // namespace quern::bench
