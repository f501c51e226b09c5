// Readers of more than one file: folders of images, and architectures for networks by what stands beside their data.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/fs.h"
#include "base/json.h"
#include "compute/program/arch_json.h"
#include "compute/program/image_dataset.h"
#include "compute/program/network_fit.h"
#include "crypto/content_id.h"
#include "fuzz/target.h"
#include "support/image_files.h"
#include "vm/tensor/data.h"

namespace quern::fuzz {
namespace {

namespace program = compute::program;
namespace tensor = vm::tensor;

// --- Folders of images
// ----------------------------------------------------------------------------------------------

// What an input says of a folder: width, height, flags (1 gray, 2 skip others, 4 one image of each class), then
//   entry = kind, length of the class's name, length of the entry's, u16 length of the content, the three of them
enum class Kind : std::uint8_t { file, folder, link, pipe, file_beside_classes };
constexpr std::uint8_t kKinds = 5;
constexpr std::size_t kMaxEntries = 64;

// Taken from an input until it ends.
class Reader {
public:
    explicit Reader(BytesView bytes) : rest_(bytes) {}
    [[nodiscard]] bool ended() const { return rest_.empty(); }
    std::uint8_t byte() { return rest_.empty() ? std::uint8_t{0} : take(1)[0]; }
    BytesView take(std::size_t size) {
        const BytesView taken = rest_.first(std::min(size, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return taken;
    }

private:
    BytesView rest_;
};

// A folder of this process that goes with it: in it "in", which is read, and "out", which is written to.
class Place {
public:
    Place() {
        std::string pattern = (std::filesystem::temp_directory_path() / "quern-fuzz-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) violated("a folder for files", __FILE__, __LINE__);
        base_ = pattern;
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { remove(""); }

    [[nodiscard]] std::string path(const std::string& name) const { return base_ + "/" + name; }
    void empty() const {
        for (const char* const name : {"in", "out"}) {
            remove(name);
            QUERN_ACCEPTED(fs::create_directories(path(name)));
        }
    }
    [[nodiscard]] std::size_t written() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path("out")), {}));
    }

private:
    void remove(const std::string& name) const {
        std::error_code ignored;
        std::filesystem::remove_all(path(name), ignored);
    }
    std::string base_;
};

// What a file can be called: any bytes but two.
std::string name_of(BytesView bytes) {
    std::string name(as_text(bytes));
    for (char& c : name)
        if (c == '/' || c == '\0') c = '_';
    return name.empty() || name == "." || name == ".." ? "_" : name;
}

// Two of one name are one, and a name that is taken otherwise stays what it is.
void make_entry(const Place& place, Reader& input) {
    const auto kind = static_cast<Kind>(input.byte() % kKinds);
    const std::size_t class_size = input.byte();
    const std::size_t name_size = input.byte();
    const std::size_t content_size = input.byte() << 8 | input.byte();
    const std::string of_class = place.path("in/" + name_of(input.take(class_size)));
    const std::string name = name_of(input.take(name_size));
    const BytesView content = input.take(content_size);
    if (kind == Kind::file_beside_classes) {
        (void)fs::write_file_atomic(place.path("in/" + name), content);
        return;
    }
    (void)::mkdir(of_class.c_str(), 0700);
    const std::string path = of_class + "/" + name;
    std::error_code ignored;
    switch (kind) {
        case Kind::folder:
            (void)::mkdir(path.c_str(), 0700);
            return;
        case Kind::link:
            std::filesystem::create_symlink(name_of(content), path, ignored);
            return;
        case Kind::pipe:
            (void)::mkfifo(path.c_str(), 0600);
            return;
        default:
            (void)fs::write_file_atomic(path, content);
    }
}

void check_dataset(const program::ImageDataset& dataset, const program::ImageDatasetOptions& options) {
    constexpr std::size_t kMost = std::size_t{1} << 20;
    const auto images = fs::read_file(options.images, kMost);
    const auto labels = fs::read_file(options.labels, kMost);
    const auto described = fs::read_text_file(options.images + ".json", kMost);
    QUERN_ACCEPTED(images);
    QUERN_ACCEPTED(labels);
    QUERN_ACCEPTED(described);
    const std::size_t each = std::size_t{options.size.width} * options.size.height * dataset.channels;
    QUERN_PROPERTY(dataset.count > 0 && images->size() == dataset.count * each && labels->size() == dataset.count);
    for (const std::uint8_t label : *labels) QUERN_PROPERTY(label < dataset.classes.size());
    QUERN_PROPERTY(std::is_sorted(labels->begin(), labels->end()));
    QUERN_PROPERTY(crypto::content_id_of(*images) == dataset.images_root);
    QUERN_PROPERTY(crypto::content_id_of(*labels) == dataset.labels_root);
    const auto parsed = json::parse(*described);
    QUERN_ACCEPTED(parsed);
    for (std::size_t i = 0; i < dataset.classes.size(); ++i)  // JSON keeps the names
        QUERN_PROPERTY((*parsed->find("classes"))[i] == json::Value(dataset.classes[i]));
}

// What is taken is whole and the same at another time; what is refused leaves no file.
bool run_image_folder(BytesView input) {
    static const Place place;
    place.empty();
    Reader reader(input);
    program::ImageDatasetOptions options;
    options.folder = place.path("in");
    options.images = place.path("out/images");
    options.labels = place.path("out/labels");
    options.size.width = 1 + reader.byte() % 16U;
    options.size.height = 1 + reader.byte() % 16U;
    const std::uint8_t flags = reader.byte();
    if ((flags & 1) != 0) options.colour = program::ImageColour::gray;
    options.skip_others = (flags & 2) != 0;
    options.per_class = (flags & 4) != 0 ? 1 : 0;
    for (std::size_t i = 0; i < kMaxEntries && !reader.ended(); ++i) make_entry(place, reader);

    const auto dataset = program::write_image_dataset(options);
    if (!dataset) {
        QUERN_PROPERTY(dataset.error().name.starts_with("image_data."));
        QUERN_PROPERTY(place.written() == 0);
        return false;
    }
    QUERN_PROPERTY(place.written() == 3);
    check_dataset(*dataset, options);
    const auto again = program::write_image_dataset(options);
    QUERN_ACCEPTED(again);
    QUERN_PROPERTY(again->images_root == dataset->images_root && again->labels_root == dataset->labels_root);
    return true;
}

void append_entry(Bytes& input, Kind kind, const std::string& of_class, const std::string& name, BytesView content) {
    for (const std::size_t field :
         {static_cast<std::size_t>(kind), of_class.size(), name.size(), content.size() >> 8, content.size() & 0xff})
        input.push_back(static_cast<std::uint8_t>(field));
    append(input, as_bytes(of_class));
    append(input, as_bytes(name));
    append(input, content);
}

std::vector<Seed> seeds_image_folder() {
    Bytes pixels(8 * 6 * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 13 / 3);
    const Bytes png = test::png_of(8, 6, pixels);
    const Bytes jpeg = test::jpeg_of(8, 6, pixels);
    Bytes plain{3, 3, 0};
    append_entry(plain, Kind::file, "cat", "1.png", png);
    append_entry(plain, Kind::file, "dog", "b.JPG", jpeg);
    append_entry(plain, Kind::file, "cat", "0.jpeg", jpeg);
    Bytes others{5, 2, 7};
    append_entry(others, Kind::file, "\xc3\xa9", "a.png", png);
    append_entry(others, Kind::file, "\xc3\xa9", "b.png", as_bytes("no picture"));
    append_entry(others, Kind::file, "\xc3\xa9", "notes.txt", as_bytes("a line"));
    append_entry(others, Kind::folder, "\xc3\xa9", "deeper.png", {});
    append_entry(others, Kind::pipe, "\xc3\xa9", "pipe.png", {});
    append_entry(others, Kind::file_beside_classes, "", "README", as_bytes("of these"));
    append_entry(others, Kind::file, "z", "c.jpg", jpeg);
    Bytes link{1, 1, 2};
    append_entry(link, Kind::file, "a", "1.png", png);
    append_entry(link, Kind::link, "a", "2.png", as_bytes("1.png"));
    return {{"plain", plain}, {"others", others}, {"link", link}};
}

// --- What stands beside data
// ----------------------------------------------------------------------------------------

program::NetworkTensor weights(program::Dims dims) {
    const auto count = static_cast<std::size_t>(program::product(dims));
    return {std::move(dims), true, std::make_shared<const std::vector<std::uint32_t>>(count, 0x3e000000U), {}};
}

// Of rows, of images whose size the data says, and of tokens.
const std::vector<program::Network>& networks() {
    static const std::vector<program::Network> all = [] {
        program::Network rows;
        rows.input = "x";
        rows.input_dims = {0, 6};
        rows.output = "y";
        rows.opset = 17;
        rows.initializers = {{"w", weights({6, 3})}};
        rows.nodes = {{"MatMul", "product", {"x", "w"}, {"y"}, {}}};
        program::Network images = rows;
        images.input_dims = {0, 0, 0, 0};
        images.initializers.clear();
        images.nodes = {{"GlobalAveragePool", "mean", {"x"}, {"m"}, {}}, {"Flatten", "flat", {"m"}, {"y"}, {}}};
        program::Network tokens = rows;
        tokens.input_dims = {0, 6};
        tokens.input_is_whole = true;
        tokens.initializers = {{"w", weights({5, 4})}};
        tokens.nodes = {{"Gather", "embedding", {"w", "x"}, {"y"}, {}}};
        return std::vector{rows, images, tokens};
    }();
    return all;
}

// The description of the inputs and, behind a NUL, that of the targets. An architecture that comes of it can be
// parsed, and is refused by name or has data tensors as large as the files.
bool run_data_description(BytesView input) {
    constexpr std::uint64_t kExamples = 12;
    const std::string_view text = as_text(input);
    const std::size_t end = text.find('\0');
    const std::string inputs(text.substr(0, end));
    std::optional<std::string> targets;
    if (end != std::string_view::npos) targets = std::string(text.substr(end + 1));
    bool taken = false;
    for (const program::Network& network : networks())
        for (const std::uint64_t width : {1U, 4U})
            for (const char* const loss : {"", "mse"}) {
                std::vector<program::DataFile> data{{kExamples * 6 * width, inputs}, {kExamples * width, targets}};
                program::FitChoices choices;
                choices.loss = loss;
                choices.batch = 2;
                auto fitted = program::fit_architecture(network, "network.onnx", data, choices);
                if (!fitted && fitted.error().name == "fit.wrong_data") {
                    data[1].bytes *= 3;  // a target for each output
                    fitted = program::fit_architecture(network, "network.onnx", data, choices);
                }
                if (!fitted) {
                    QUERN_PROPERTY(fitted.error().name.find('.') != std::string_view::npos);
                    continue;
                }
                taken = true;
                auto architecture = program::parse_architecture(*fitted);
                QUERN_ACCEPTED(architecture);
                architecture->layers().network = std::make_shared<const program::Network>(network);
                if (const auto checked = program::check_architecture(*architecture); !checked) {
                    QUERN_PROPERTY(checked.error().name.starts_with("arch."));  // tokens that are said to be f32
                    continue;
                }
                for (std::size_t i = 0; i < architecture->data.size(); ++i)
                    QUERN_PROPERTY(tensor::data_bytes(architecture->data[i]) == data[i].bytes);
            }
    return taken;
}

std::vector<Seed> seeds_data_description() {
    const auto seed = [](const char* name, const std::string& text) {
        return Seed{name, Bytes(text.begin(), text.end())};
    };
    const std::string end(1, '\0');
    return {seed("images", R"({"format":"quern-images-1","dtype":"u8","elements":72,"height":2,"width":3,"channels":1,)"
                           R"("count":12,"classes":["a","b"],"labels":{"dtype":"u8","elements":12}})"),
            seed("arrays", R"({"format":"quern-arrays-1","dtype":"f32","elements":72,"shape":[12,6],)"
                           R"("targets":{"dtype":"i32","elements":12,"shape":[12],"classes":["x","y","z"]}})"),
            seed("tokens", R"({"format":"quern-text-1","dtype":"u8","elements":72,"vocabulary":"abcde"})"),
            seed("two", R"({"dtype":"f32"})" + end + R"({"dtype":"f32","elements":36})")};
}

}  // namespace

std::span<const Target> reader_targets() {
    static constexpr Target kTargets[] = {
        {"image_folder", run_image_folder, seeds_image_folder},
        {"data_description", run_data_description, seeds_data_description},
    };
    return kTargets;
}

}  // namespace quern::fuzz
