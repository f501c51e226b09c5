// PNG and JPEG files as rows of pixels, and pixels of one size as pixels of another. Used by image_dataset and the fuzz
// target. Pure functions on bytes; thread-safe. What is decoded comes from anywhere: sizes are checked before memory is
// taken, and a claim that so few bytes cannot back is refused.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/expected.h"

namespace quern::compute::program {

inline constexpr std::size_t kMaxImageFileBytes = std::size_t{64} << 20;
inline constexpr std::uint32_t kMaxImageFileSide = 16'384;                // of a file and of what is made of it
inline constexpr std::uint64_t kMaxImagePixels = std::uint64_t{1} << 26;  // of both, too
inline constexpr std::size_t kMaxPngChunkBytes = std::size_t{8} << 20;    // of a chunk beside the pixels
inline constexpr std::size_t kMaxPngChunksBytes = std::size_t{16} << 20;  // of all of them, inflated

struct ImageSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    friend bool operator==(const ImageSize&, const ImageSize&) = default;
};
// Error image_data.too_large: a side above kMaxImageFileSide, or above `max_pixels`.
[[nodiscard]] Status check_image_size(std::uint64_t width, std::uint64_t height,
                                      std::uint64_t max_pixels = kMaxImagePixels);

enum class ImageColour : std::uint8_t { rgb, gray };
[[nodiscard]] constexpr std::uint32_t channels_of(ImageColour colour) { return colour == ImageColour::rgb ? 3 : 1; }

struct Pixels {
    ImageSize size;
    std::uint32_t channels = 0;
    Bytes values;  // [height, width, channels], rows from the top
    friend bool operator==(const Pixels&, const Pixels&) = default;
};

// Which of the two it is the bytes decide. A gray value is (77 R + 150 G + 29 B + 128) / 256. A pixel that lets
// something through lies on white: (c a + 255 (255 - a) + 127) / 255. Of 16 bits the upper 8 count. Neither gamma,
// profile nor orientation is applied. Of a PNG each checksum that is met must be right, of a JPEG there must be no
// warning. Errors: image_data.too_large (file, side or pixels), image_data.unknown_file (neither), image_data.bad_png,
// image_data.bad_jpeg, image_data.cmyk_jpeg.
[[nodiscard]] Expected<Pixels> decode_image(BytesView file, ImageColour colour,
                                            std::uint64_t max_pixels = kMaxImagePixels);

// The middle of the image, as large as the aspect ratio of `size` allows, at that size: along an axis that shrinks the
// mean of what a pixel covers, along one that grows linear between the centres of pixels. Exact sums of integers,
// divided once, half up. The caller gives an image and a size that check_image_size takes, none of them empty.
[[nodiscard]] Pixels fit_image(const Pixels& image, const ImageSize& size);

}  // namespace quern::compute::program
