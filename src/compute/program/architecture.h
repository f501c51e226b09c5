// What a training task trains: model, data, batch and optimizer, and the programs built from it. Parsed from JSON by
// arch_json.h. Used by quern-compile and by tests. Plain values and pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compute/core/task_plan.h"
#include "compute/program/builder.h"
#include "compute/program/layers.h"
#include "compute/program/network.h"
#include "compute/program/optimizer.h"

namespace quern::compute::program {

// Sizes are checked by check_architecture(); the limits keep every tensor and the program well inside the machine's.
inline constexpr std::uint32_t kMaxLayers = 64;
inline constexpr std::uint32_t kMaxWidth = 8192;
inline constexpr std::uint32_t kMaxHeads = 128;
inline constexpr std::uint32_t kMaxContext = 8192;
inline constexpr std::uint32_t kMaxMlpRatio = 16;
inline constexpr std::uint32_t kMaxVocabulary = 1U << 17;
inline constexpr std::uint32_t kMaxBatch = 1U << 14;
inline constexpr std::uint32_t kMaxAdapterRank = 256;
inline constexpr std::uint32_t kMaxExperts = 256;
inline constexpr float kMinCapacityFactor = 0x1p-10F;
inline constexpr float kMaxCapacityFactor = 256.0F;
inline constexpr float kMaxBalance = 1e3F;
inline constexpr std::uint32_t kMaxImageSide = 1U << 12;
inline constexpr std::uint32_t kMaxFeatures = 1U << 20;  // of an example's row, channels and outputs as well
inline constexpr std::uint32_t kMaxAccumulate = 1U << 12;
inline constexpr std::uint32_t kMaxHeldOutTargets = 1U << 30;  // of an evaluation: they are counted in an i32
inline constexpr std::uint32_t kMaxRecomputedParts = 1U << 10;

// In the place of each MLP as many as `count`, of which each token goes through `top` (experts.h).
struct ExpertsSpec {
    std::uint32_t count = 0;  // 0: one MLP for all tokens
    std::uint32_t top = 1;    // 1 (Switch) or 2 (GShard)
    // How many times the tokens of a window that an expert would be given if all were given as many.
    float capacity_factor = 1.25F;
    float balance = 0.01F;  // of each layer's balance loss in what is differentiated; the reported loss is without

    bool operator==(const ExpertsSpec&) const = default;
};

// Decoder-only transformer in GPT-2's pre-norm form.
struct TransformerSpec {
    enum class Positions : std::uint8_t {
        learned,  // a table, added to the token embeddings
        rotary,   // queries and keys are turned (attention.h); heads have an even size
        none,     // the causal mask alone tells them apart
    };
    enum class Norm : std::uint8_t { layer, rms };
    // swiglu: silu(x W_gate) * (x W_in) in the place of one activated product, and no biases (Shazeer, arXiv
    // 2002.05202).
    enum class Activation : std::uint8_t { gelu, relu, silu, swiglu };

    std::uint32_t layers = 2;
    std::uint32_t width = 64;  // d_model
    std::uint32_t heads = 4;   // divides width
    std::uint32_t context = 64;
    std::uint32_t mlp_ratio = 4;
    std::uint32_t vocabulary = 98;
    bool tied = false;  // the token embedding is the output layer too, transposed
    // Low-rank adapters (LoRA, arXiv 2106.09685) beside the four matrices of each layer: x W + scale (x A) B. They
    // alone are trained, all else stays as it is. 0: none.
    std::uint32_t adapter_rank = 0;
    float adapter_scale = 1.0F;
    // Of matrix products and the products of their gradients. Adapters' and routers' are in f32.
    using Precision = program::Precision;
    Precision precision = Precision::f32;       // of the matrices of each layer
    LayerPrecision layer_precision{};           // of some of them, by names as of parameters: "h.0", "h.1.mlp.w_out"
    Precision head_precision = Precision::f32;  // of the output layer
    Precision attention_precision = Precision::f32;

    [[nodiscard]] bool has_byte_products() const;
    Positions positions = Positions::learned;
    Norm norm = Norm::layer;
    Activation activation = Activation::gelu;
    // Of keys and values: heads / kv_heads heads in a row read the same (arXiv 2305.13245). Divides heads; 0: as heads.
    std::uint32_t kv_heads = 0;
    // In training, of the embeddings and of what each residual branch gives (Vaswani et al., arXiv 1706.03762, 5.4).
    float dropout = 0.0F;
    ExpertsSpec experts{};

    // Places of an expert for the tokens of a window: ceil(capacity_factor * top * context / count), at most context.
    [[nodiscard]] std::uint32_t expert_capacity() const;
    [[nodiscard]] std::uint32_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }

    bool operator==(const TransformerSpec&) const = default;
};

// Layers, or a network of another tool, over examples of two data tensors: the inputs of all examples, then their
// targets; of a model of the next token over one, as a transformer.
struct LayersSpec {
    enum class Input : std::uint8_t { row, image, tokens };  // tokens: a row of whole numbers, as they are
    enum class Loss : std::uint8_t {
        cross_entropy,         // a target is the number of a class, whole; one output for each class
        mean_squared_error,    // as many targets as outputs
        binary_cross_entropy,  // the same, each the probability that an output is 1
        next_token,            // of tokens, each but the first a target: an output for each token of the vocabulary
    };
    // Of an example: an image, or a row of so many channels or tokens.
    Input input = Input::row;
    Extent2d image;
    std::uint32_t channels = 1;
    float scale = 1.0F;  // the first layer is given element * scale + shift
    float shift = 0.0F;
    std::vector<Layer> layers;  // from [batch,height,width,channels] or [1,1,batch,channels] to [1,1,batch,outputs]
    // In the place of layers: a file, as the architecture names it, what it holds once it is read (model_file.h), and
    // how it is trained.
    std::string network_file;
    std::shared_ptr<const Network> network;
    NetworkTraining training;
    std::uint32_t outputs = 2;
    Loss loss = Loss::cross_entropy;

    [[nodiscard]] std::uint64_t input_size() const { return std::uint64_t{image.height} * image.width * channels; }
    [[nodiscard]] bool is_next_token() const { return loss == Loss::next_token; }
    [[nodiscard]] bool has_classes() const { return loss == Loss::cross_entropy || is_next_token(); }
    [[nodiscard]] std::uint32_t target_size() const { return has_classes() ? 1 : outputs; }
    // Rows of outputs for each example.
    [[nodiscard]] std::uint32_t rows() const { return is_next_token() ? channels : 1; }
};

// Examples that nothing is trained by: the training itself measures the model on them (held_out.h).
struct HeldOut {
    std::vector<vm::tensor::DataSet> data;  // as the training's, behind which they come
    std::uint32_t examples = 0;             // the first so many of them; 0: all
    std::uint32_t every = 0;                // updates from one evaluation to the next; 0: one, at the end
};

struct Architecture {
    std::variant<TransformerSpec, LayersSpec> model;
    // Of a transformer one: tokens, one after the other, whole numbers.
    std::vector<vm::tensor::DataSet> data{vm::tensor::DataSet{}};
    std::uint32_t batch = 16;
    std::uint32_t accumulate = 0;  // G: batches whose gradients are added up for an update; 0: a step is an update
    // Parts into which the forward pass is cut; what goes from one to the next is kept for the backward pass, the rest
    // computed again (recomputation.h). Of a transformer of whole layers, hence at most as many. 0: all is kept.
    std::uint32_t recompute = 0;
    OptimizerConfig optimizer;
    std::optional<HeldOut> held_out;

    // Of the programs: the training's, then those held out.
    [[nodiscard]] std::vector<vm::tensor::DataSet> all_data() const;

    // Where the model is of that kind.
    [[nodiscard]] const TransformerSpec& transformer() const { return std::get<TransformerSpec>(model); }
    [[nodiscard]] TransformerSpec& transformer() { return std::get<TransformerSpec>(model); }
    [[nodiscard]] const LayersSpec& layers() const { return std::get<LayersSpec>(model); }
    [[nodiscard]] LayersSpec& layers() { return std::get<LayersSpec>(model); }
    [[nodiscard]] bool is_transformer() const { return std::holds_alternative<TransformerSpec>(model); }
};

// Whether an example is a window of one data tensor of tokens, of which each but the first is a target.
[[nodiscard]] bool takes_windows(const Architecture& architecture);

// Errors: arch.out_of_range, arch.heads_do_not_divide, arch.odd_head_size (rotary positions turn pairs),
// arch.attention_in_f32 (attention_precision is of plain attention), arch.adapters_of_experts (adapters go beside
// them), arch.too_large, arch.unknown_dtype, arch.wrong_data (data tensors that do not fit one another or the model),
// arch.wrong_loss (the next token of what is no row of tokens), arch.no_network (the file that is named was not read).
// Those of held-out data say so.
[[nodiscard]] Status check_architecture(const Architecture& architecture);
// The same of a transformer alone, for batches of so many windows.
[[nodiscard]] Status check_transformer(const TransformerSpec& spec, std::uint32_t batch);

// The architecture with the held-out data in the place of its own; of one that has some.
[[nodiscard]] Architecture on_held_out(const Architecture& architecture);
// How many of them an evaluation takes.
[[nodiscard]] std::uint32_t held_out_count(const Architecture& architecture);

// Rows of outputs for each example.
[[nodiscard]] std::uint32_t rows_of_example(const Architecture& architecture);

// Examples in the data. Of a transformer, or another model of the next token: windows of context + 1 tokens, of which
// each begins with the last of the one before, so that each token but the first is a target once. 0: there is none.
[[nodiscard]] std::uint64_t example_count(const Architecture& architecture);

// The step program: batch, forward, loss, backward, optimizer. Slots: the model's parameters ("model.…"; of adapters
// "….lora_a" and "….lora_b", before all others), running statistics, the optimizer's, "step" (i32), "loss" (f32; the
// step's loss before its update). Step t takes the examples permute_index(t * batch + i mod 2^32, seed words 0 and 1,
// examples), i in [0, batch): each once per pass over the data as long as examples * passes stays below 2^32. Dropout's
// key is the seed, t added to each word. Errors: arch.accumulates (it takes two programs, as one with held-out data
// does), arch.wrong_output (the last layer gives another shape than the targets want), arch.unknown_matrix
// (layer_precision names none), layers.*, image.*, builder.*, program.*.
[[nodiscard]] Expected<BuiltProgram> build_training_program(const Architecture& architecture);

// The programs of a training, over one slot list, and what a plan's body is made of.
struct TrainingPrograms {
    std::vector<BuiltProgram> programs;      // those that train, then that of the evaluation
    std::vector<core::PlanItem> turn;        // the steps that lead to an update
    std::vector<core::PlanItem> evaluation;  // those of an evaluation; none without held-out data
    std::uint32_t every = 0;                 // updates before each; 0: one, behind the last

    [[nodiscard]] std::size_t training_count() const { return programs.size() - (evaluation.empty() ? 0 : 1); }
    // What a plan repeats: a turn, or so many of them and an evaluation.
    [[nodiscard]] std::vector<core::PlanItem> round() const;
    // The body of a plan of so many updates, 1 at least. With held-out data it ends with an evaluation.
    [[nodiscard]] std::vector<core::PlanItem> body(std::uint64_t updates) const;
};
// Without accumulation the program above alone. With it two, [[accumulate x G, update] x N]: `accumulate` does what the
// program above does up to the gradients, of the examples of batch number "micro" (i32), and adds each to its slot
// "gradient.<parameter>" and the loss to "loss_sum"; `update` gives the sums times 1/G to the optimizer and to "loss",
// counts "step" and sets the sums to +0. So a sum is ((+0 + g_1) + g_2) + ... + g_G. With held-out data there is one
// more, which takes one batch of them a step and leaves all slots but those of held_out.h as they are.
[[nodiscard]] Expected<TrainingPrograms> build_training_programs(const Architecture& architecture);

// The model alone, for sampling. Slots: the parameters (kept), "tokens" i32 [1,1,1,context], "inverse_temperature",
// "probabilities" f32 [1,1,context,vocabulary]: softmax of the logits times the inverse temperature at each position,
// and "loss", which stays +0. It reads no data.
[[nodiscard]] Expected<BuiltProgram> build_forward_program(const TransformerSpec& spec);

// The model outside training, on `batch` examples of the same data from number "first" (i32) on. Slots: the parameters
// and statistics (kept), "first", "outputs" f32 [1,1,batch,outputs] (logits, where the loss takes those; of the next
// token a row for each), "targets" f32 [1,1,batch,targets of an example], "loss", their mean loss; examples beyond the
// end read zeros.
[[nodiscard]] Expected<BuiltProgram> build_evaluation_program(const Architecture& architecture);

}  // namespace quern::compute::program
