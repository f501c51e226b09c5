// A folder of images as two data tensors: a folder inside it is a class, its PNG and JPEG files the examples. Used by
// quern-compile. Order is that of the names' bytes, classes and then files, so that equal folders give equal bytes.
// Images pass through memory one at a time. Functions are thread-safe as long as they write different files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/expected.h"
#include "compute/program/image_file.h"
#include "vm/tensor/graph.h"

namespace quern::compute::program {

struct ImageLimits {
    std::uint64_t classes = 65'536;
    std::uint64_t images = 10'000'000;
    std::size_t name_bytes = 255;  // of a class or a file
    std::size_t file_bytes = kMaxImageFileBytes;
};

struct ImageClass {
    std::string name;
    std::vector<std::string> files;  // names inside the class's folder
};
struct ImageFolder {
    std::vector<ImageClass> classes;
    std::uint64_t images = 0;
    std::uint64_t skipped = 0;  // other files
};
// The first `per_class` images of each class (0: all). Symbolic links are refused. Errors: image_data.cannot_list,
// image_data.link, image_data.unknown_file (no folder where classes are, or no .png, .jpg or .jpeg inside one; skipped
// with `skip_others`), image_data.bad_name (no UTF-8, which JSON needs, or too long), image_data.no_classes,
// image_data.empty_class, image_data.too_large (a file), image_data.too_many_classes, image_data.too_many_images.
[[nodiscard]] Expected<ImageFolder> list_images(const std::string& folder, bool skip_others, std::uint64_t per_class,
                                                const ImageLimits& limits = {});

struct ImageDatasetOptions {
    std::string folder;
    std::string images;  // files to write; beside the first one its description
    std::string labels;
    ImageSize size;
    ImageColour colour = ImageColour::rgb;
    bool skip_others = false;
    std::uint64_t per_class = 0;
};
struct ImageDataset {
    ImageSize size;
    std::uint32_t channels = 0;
    std::uint64_t count = 0;
    std::vector<std::string> classes;  // label l is the number of classes[l]
    std::uint64_t skipped = 0;
    Hash32 images_root;  // content ids
    Hash32 labels_root;

    [[nodiscard]] vm::tensor::DataType label_type() const;  // u8, or u16 of more than 256 classes
};
// The three files appear whole or not at all. Errors: list_images', decode_image's with the file's name,
// image_data.bad_size (no pixels), image_data.same_output (two files to write are one), image_data.too_large (the data
// tensor), those of reading and writing files (base/fs.h).
[[nodiscard]] Expected<ImageDataset> write_image_dataset(const ImageDatasetOptions& options);

// Elements of so many images. Error image_data.too_large: more than a data tensor has.
[[nodiscard]] Expected<std::uint64_t> image_elements(std::uint64_t count, const ImageSize& size,
                                                     std::uint32_t channels);

// What the files do not say, as JSON: {"format": "quern-images-1", "dtype": "u8", "elements", "height", "width",
// "channels", "count", "classes": [names], "labels": {"dtype", "elements"}}.
[[nodiscard]] std::string describe_image_dataset(const ImageDataset& dataset);

// "32x24": width, then height. Errors: image_data.bad_size, image_data.too_large.
[[nodiscard]] Expected<ImageSize> parse_image_size(std::string_view text);

}  // namespace quern::compute::program
