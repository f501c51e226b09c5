#include "compute/program/image_dataset.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <system_error>

#include "base/atomic_file.h"
#include "base/fs.h"
#include "base/json.h"
#include "compute/program/readable.h"
#include "crypto/content_id.h"
#include "vm/tensor/data.h"

namespace quern::compute::program {

namespace {

namespace tensor = vm::tensor;

constexpr std::string_view kImagesFormat = "quern-images-1";
constexpr std::size_t kMostU8Classes = 256;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;
constexpr std::size_t kMostShown = 256;  // of a name

struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
};

struct Entry {
    std::string name;
    bool is_folder = false;
    bool is_file = false;
    std::uint64_t bytes = 0;
};

// What one folder holds, in the order of the names' bytes.
class Listing {
public:
    Listing(std::string path, const ImageLimits& limits) : path_(std::move(path)), limits_(limits) {}

    // At most `most` entries that `takes` wants; others are errors, or `skipped`.
    template <class Takes>
    [[nodiscard]] Expected<std::vector<Entry>> read(std::uint64_t most, std::string_view too_many, bool skip_others,
                                                    std::uint64_t& skipped, const Takes& takes) const {
        const std::unique_ptr<DIR, CloseFolder> folder(::opendir(path_.c_str()));
        if (folder == nullptr) return cannot_list(errno);
        std::vector<Entry> entries;
        for (;;) {
            errno = 0;
            const dirent* const found = ::readdir(folder.get());
            if (found == nullptr && errno != 0) return cannot_list(errno);
            if (found == nullptr) break;
            const std::string_view name = found->d_name;
            if (name == "." || name == "..") continue;
            QUERN_TRY(Entry entry, look_at(::dirfd(folder.get()), std::string(name)));
            if (!takes(entry)) {
                if (!skip_others) return fail("image_data.unknown_file", path_of(readable(entry.name, kMostShown)));
                ++skipped;
                continue;
            }
            QUERN_CHECK(check_name(entry.name));
            if (entries.size() == most) return fail(too_many, path_ + ": more than " + std::to_string(most));
            entries.push_back(std::move(entry));
        }
        std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
        return entries;
    }

    [[nodiscard]] std::string path_of(const std::string& name) const { return path_ + "/" + name; }

private:
    [[nodiscard]] tl::unexpected<Error> cannot_list(int code) const {
        return fault("image_data.cannot_list", path_ + ": " + std::generic_category().message(code));
    }

    [[nodiscard]] Expected<Entry> look_at(int folder, std::string name) const {
        struct stat info {};
        if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return cannot_list(errno);
        if (S_ISLNK(info.st_mode)) return fail("image_data.link", path_of(readable(name, kMostShown)));
        return Entry{std::move(name), S_ISDIR(info.st_mode), S_ISREG(info.st_mode),
                     static_cast<std::uint64_t>(info.st_size)};
    }

    // JSON would take another name for one that is no UTF-8.
    [[nodiscard]] Status check_name(const std::string& name) const {
        const auto kept = json::parse(json::Value(name).dump());
        if (name.size() > limits_.name_bytes || has_controls(name) || !kept || *kept != json::Value(name))
            return fail("image_data.bad_name", path_of(readable(name, kMostShown)));
        return {};
    }

    std::string path_;
    const ImageLimits& limits_;
};

bool is_image_name(std::string_view name) {
    static constexpr std::array<std::string_view, 3> kEndings{".png", ".jpg", ".jpeg"};
    std::string lower(name);
    for (char& c : lower)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return std::any_of(kEndings.begin(), kEndings.end(), [&](std::string_view ending) {
        return lower.size() > ending.size() && lower.ends_with(ending);
    });
}

// A file to write and the content id of what went into it.
class ContentFile {
public:
    [[nodiscard]] static Expected<ContentFile> create(const std::string& path) {
        QUERN_TRY(fs::AtomicFile file, fs::AtomicFile::create(path));
        return ContentFile(std::move(file));
    }
    [[nodiscard]] Status add(BytesView more) {
        hasher_.update(more);
        buffer_.insert(buffer_.end(), more.begin(), more.end());
        return buffer_.size() < kWriteBytes ? Status() : flush();
    }
    [[nodiscard]] Hash32 id() { return hasher_.finish(); }  // once, when all is added
    [[nodiscard]] Status commit() {
        QUERN_CHECK(flush());
        return file_.commit();
    }

private:
    explicit ContentFile(fs::AtomicFile file) : file_(std::move(file)) {}
    [[nodiscard]] Status flush() {
        QUERN_CHECK(file_.write(buffer_));
        buffer_.clear();
        return {};
    }
    fs::AtomicFile file_;
    crypto::ContentHasher hasher_;
    Bytes buffer_;
};

Expected<Pixels> read_image(const std::string& path, const ImageDatasetOptions& options) {
    QUERN_TRY(const Bytes file, fs::read_file(path, kMaxImageFileBytes));
    const auto image = decode_image(file, options.colour);
    if (!image) return detailed(image.error(), path + ": " + image.error().detail);
    return fit_image(*image, options.size);
}

std::string description_of(const std::string& images) { return images + ".json"; }

Status check_options(const ImageDatasetOptions& options) {
    if (options.size.width == 0 || options.size.height == 0) return fail("image_data.bad_size", "no pixels");
    QUERN_CHECK(check_image_size(options.size.width, options.size.height));
    const auto normal = [](const std::string& path) { return std::filesystem::path(path).lexically_normal(); };
    if (normal(options.labels) == normal(options.images) ||
        normal(options.labels) == normal(description_of(options.images)))
        return fail("image_data.same_output", options.labels);
    return {};
}

Status write_examples(const ImageFolder& folder, const ImageDatasetOptions& options, tensor::DataType label_type,
                      ContentFile& images, ContentFile& labels) {
    for (std::size_t label = 0; label < folder.classes.size(); ++label) {
        const ImageClass& of_class = folder.classes[label];
        const std::array<std::uint8_t, 2> bytes{static_cast<std::uint8_t>(label),
                                                static_cast<std::uint8_t>(label >> 8)};
        for (const std::string& name : of_class.files) {
            std::string path = options.folder;
            path.append("/").append(of_class.name).append("/").append(name);
            QUERN_TRY(const Pixels image, read_image(path, options));
            QUERN_CHECK(images.add(image.values));
            QUERN_CHECK(labels.add(BytesView(bytes).first(tensor::element_bytes(label_type))));
        }
    }
    return {};
}

}  // namespace

Expected<ImageFolder> list_images(const std::string& folder, bool skip_others, std::uint64_t per_class,
                                  const ImageLimits& limits) {
    ImageFolder found;
    const Listing top(folder, limits);
    QUERN_TRY(const std::vector<Entry> classes, top.read(limits.classes, "image_data.too_many_classes", skip_others,
                                                         found.skipped, [](const Entry& e) { return e.is_folder; }));
    if (classes.empty()) return fail("image_data.no_classes", folder);
    for (const Entry& entry : classes) {
        const Listing inside(top.path_of(entry.name), limits);
        QUERN_TRY(std::vector<Entry> files,
                  inside.read(limits.images, "image_data.too_many_images", skip_others, found.skipped,
                              [](const Entry& e) { return e.is_file && is_image_name(e.name); }));
        if (files.empty()) return fail("image_data.empty_class", top.path_of(entry.name));
        if (per_class != 0 && files.size() > per_class)
            files.erase(files.begin() + static_cast<std::ptrdiff_t>(per_class), files.end());
        if (files.size() > limits.images - found.images)
            return fail("image_data.too_many_images", folder + ": more than " + std::to_string(limits.images));
        found.images += files.size();
        ImageClass& of_class = found.classes.emplace_back();
        of_class.name = entry.name;
        for (Entry& file : files) {
            if (file.bytes > limits.file_bytes)
                return fail("image_data.too_large",
                            inside.path_of(file.name) + ": " + std::to_string(file.bytes) + " bytes");
            of_class.files.push_back(std::move(file.name));
        }
    }
    return found;
}

tensor::DataType ImageDataset::label_type() const {
    return classes.size() <= kMostU8Classes ? tensor::DataType::u8 : tensor::DataType::u16;
}

Expected<ImageDataset> write_image_dataset(const ImageDatasetOptions& options) {
    QUERN_CHECK(check_options(options));
    QUERN_TRY(const ImageFolder folder, list_images(options.folder, options.skip_others, options.per_class));
    ImageDataset dataset{options.size, channels_of(options.colour), folder.images, {}, folder.skipped, {}, {}};
    for (const ImageClass& of_class : folder.classes) dataset.classes.push_back(of_class.name);
    QUERN_CHECK(image_elements(dataset.count, dataset.size, dataset.channels));
    QUERN_TRY(ContentFile images, ContentFile::create(options.images));
    QUERN_TRY(ContentFile labels, ContentFile::create(options.labels));
    QUERN_CHECK(write_examples(folder, options, dataset.label_type(), images, labels));
    dataset.images_root = images.id();
    dataset.labels_root = labels.id();
    QUERN_CHECK(labels.commit());
    Status rest = images.commit();
    const std::string description = description_of(options.images);
    if (rest) rest = fs::write_file_atomic(description, as_bytes(describe_image_dataset(dataset)));
    if (!rest) {  // what is there by now belongs to no whole data set
        for (const std::string& path : {options.labels, options.images, description}) (void)fs::remove_file(path);
        return fail(std::move(rest).error());
    }
    return dataset;
}

Expected<std::uint64_t> image_elements(std::uint64_t count, const ImageSize& size, std::uint32_t channels) {
    const std::uint64_t each = std::uint64_t{size.width} * size.height * channels;
    if (count > tensor::kMaxDataElements / each)
        return fail("image_data.too_large", std::to_string(count) + " images of " + std::to_string(each) + " elements");
    return count * each;
}

std::string describe_image_dataset(const ImageDataset& dataset) {
    json::Value classes = json::Value::array();
    for (const std::string& name : dataset.classes) classes.push(name);
    json::Value labels = json::Value::object(
        {{"dtype", std::string(tensor::name_of(dataset.label_type()))}, {"elements", dataset.count}});
    return json::Value::object(
               {{"format", std::string(kImagesFormat)},
                {"dtype", std::string(tensor::name_of(tensor::DataType::u8))},
                {"elements", dataset.count * dataset.size.width * dataset.size.height * dataset.channels},
                {"height", dataset.size.height},
                {"width", dataset.size.width},
                {"channels", dataset.channels},
                {"count", dataset.count},
                {"classes", std::move(classes)},
                {"labels", std::move(labels)}})
               .dump_pretty() +
           "\n";
}

Expected<ImageSize> parse_image_size(std::string_view text) {
    ImageSize size;  // a side that is no number stays 0
    const char* const end = text.data() + text.size();
    const char* const x = std::from_chars(text.data(), end, size.width).ptr;
    const char* const rest = x == end || *x != 'x' ? x : std::from_chars(x + 1, end, size.height).ptr;
    if (rest != end || size.width == 0 || size.height == 0)
        return fail("image_data.bad_size", std::string(text) + ": WIDTHxHEIGHT, such as 32x32");
    QUERN_CHECK(check_image_size(size.width, size.height));
    return size;
}

}  // namespace quern::compute::program
