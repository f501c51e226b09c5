#include "compute/program/image_file.h"

#include <spng.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/ensure.h"

namespace quern::compute::program {

namespace {

constexpr std::array<std::uint8_t, 8> kPngSignature{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<std::uint8_t, 3> kJpegSignature{0xff, 0xd8, 0xff};
// What inflates most is a match of 258 bytes by two codes of one bit.
constexpr std::uint64_t kMaxInflation = 1'032;
// A block of 8 x 8 pixels takes a bit at least, of its DC coefficient.
constexpr std::uint64_t kMaxJpegPixelsPerByte = 512;

bool begins_with(BytesView file, BytesView signature) {
    return file.size() >= signature.size() && equal(file.first(signature.size()), signature);
}

std::uint8_t over_white(std::uint32_t value, std::uint32_t alpha) {
    return static_cast<std::uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

std::uint8_t gray_of(std::uint32_t red, std::uint32_t green, std::uint32_t blue) {
    return static_cast<std::uint8_t>((77 * red + 150 * green + 29 * blue + 128) >> 8);
}

// Takes rows of `stride` bytes a pixel (RGB, and alpha when it is 4) to those of the colour, in place.
void take_colour(Bytes& values, std::size_t stride, ImageColour colour) {
    std::size_t to = 0;
    for (std::size_t at = 0; at < values.size(); at += stride) {
        const std::uint32_t alpha = stride == 4 ? values[at + 3] : 255;
        const std::uint8_t red = over_white(values[at], alpha);
        const std::uint8_t green = over_white(values[at + 1], alpha);
        const std::uint8_t blue = over_white(values[at + 2], alpha);
        if (colour == ImageColour::gray) {
            values[to++] = gray_of(red, green, blue);
            continue;
        }
        values[to++] = red;
        values[to++] = green;
        values[to++] = blue;
    }
    values.resize(to);
}

// --- PNG -------------------------------------------------------------------------------------------------------------
struct FreePng {
    void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};

tl::unexpected<Error> bad_png(int code) { return fail("image_data.bad_png", spng_strerror(code)); }

std::uint64_t bits_of_pixel(const spng_ihdr& header) {
    switch (header.color_type) {
        case SPNG_COLOR_TYPE_TRUECOLOR:
            return 3U * header.bit_depth;
        case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
            return 2U * header.bit_depth;
        case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
            return 4U * header.bit_depth;
        default:
            return header.bit_depth;
    }
}

Expected<Pixels> decode_png(BytesView file, ImageColour colour, std::uint64_t max_pixels) {
    const std::unique_ptr<spng_ctx, FreePng> context(spng_ctx_new(0));
    ensure(context != nullptr, "memory for a decoder");
    // How many chunks there may be stays at libspng's 1,000.
    int code = spng_set_crc_action(context.get(), SPNG_CRC_ERROR, SPNG_CRC_ERROR);
    if (code == 0) code = spng_set_chunk_limits(context.get(), kMaxPngChunkBytes, kMaxPngChunksBytes);
    ensure(code == 0, "options that libspng knows");
    spng_ihdr header{};
    code = spng_set_png_buffer(context.get(), file.data(), file.size());
    if (code == 0) code = spng_get_ihdr(context.get(), &header);
    if (code != 0) return bad_png(code);
    QUERN_CHECK(check_image_size(header.width, header.height, max_pixels));
    Pixels image{{header.width, header.height}, channels_of(colour), {}};
    const std::uint64_t pixels = std::uint64_t{header.width} * header.height;
    if (pixels * bits_of_pixel(header) / 8 > kMaxInflation * file.size())
        return fail("image_data.bad_png", "too few bytes for so many pixels");
    image.values.resize(pixels * 4);
    code = spng_decode_image(context.get(), image.values.data(), image.values.size(), SPNG_FMT_RGBA8, SPNG_DECODE_TRNS);
    if (code == 0) code = spng_decode_chunks(context.get());  // up to the end
    if (code != 0) return bad_png(code);
    take_colour(image.values, 4, colour);
    return image;
}

// --- JPEG ------------------------------------------------------------------------------------------------------------
struct FreeJpeg {
    void operator()(void* decoder) const { tjDestroy(decoder); }
};

Expected<Pixels> decode_jpeg(BytesView file, ImageColour colour, std::uint64_t max_pixels) {
    const std::unique_ptr<void, FreeJpeg> decoder(tjInitDecompress());
    ensure(decoder != nullptr, "memory for a decoder");
    const auto bad_jpeg = [&] { return fail("image_data.bad_jpeg", tjGetErrorStr2(decoder.get())); };
    int width = 0;
    int height = 0;
    int subsampling = 0;
    int space = 0;
    if (tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height, &subsampling, &space) != 0)
        return bad_jpeg();
    if (space == TJCS_CMYK || space == TJCS_YCCK)
        return fail("image_data.cmyk_jpeg", "inks are no colours without a profile");
    // A stream of tables alone passes and leaves these as they were.
    if (width <= 0 || height <= 0) return fail("image_data.bad_jpeg", "no pixels");
    QUERN_CHECK(check_image_size(static_cast<std::uint64_t>(width), static_cast<std::uint64_t>(height), max_pixels));
    Pixels image{{static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height)}, channels_of(colour), {}};
    const std::uint64_t pixels = std::uint64_t{image.size.width} * image.size.height;
    if (pixels > kMaxJpegPixelsPerByte * file.size())
        return fail("image_data.bad_jpeg", "too few bytes for so many pixels");
    image.values.resize(pixels * 3);
    // A warning is an error to TurboJPEG in any case; so it ends the work, too.
    constexpr int kFlags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;
    if (tjDecompress2(decoder.get(), file.data(), file.size(), image.values.data(), width, 0, height, TJPF_RGB,
                      kFlags) != 0)
        return bad_jpeg();
    take_colour(image.values, 3, colour);
    return image;
}

// --- Sizes -----------------------------------------------------------------------------------------------------------
struct Tap {
    std::uint32_t at;
    std::uint32_t weight;
};

// What each of the `to` places of an axis takes of its `from`; the weights of each add up to `total`.
struct AxisTaps {
    std::vector<std::vector<Tap>> taps;
    std::uint64_t total;
};

AxisTaps taps_of(std::uint32_t from, std::uint32_t to) {
    AxisTaps axis{std::vector<std::vector<Tap>>(to), from >= to ? from : 2 * std::uint64_t{to}};
    for (std::uint32_t place = 0; place < to; ++place) {
        std::vector<Tap>& taps = axis.taps[place];
        if (from >= to) {  // pixel i covers [i to, (i + 1) to), the place [place from, (place + 1) from)
            const std::uint64_t begin = std::uint64_t{place} * from;
            const std::uint64_t end = begin + from;
            for (std::uint64_t i = begin / to; i * to < end; ++i)
                taps.push_back({static_cast<std::uint32_t>(i),
                                static_cast<std::uint32_t>(std::min(end, (i + 1) * to) - std::max(begin, i * to))});
            continue;
        }
        // In 2 to parts of a pixel: the place's centre, less that of pixel 0.
        const std::uint64_t centre = (2 * std::uint64_t{place} + 1) * from;
        const std::uint64_t position = std::min(centre < to ? 0 : centre - to, axis.total * (std::uint64_t{from} - 1));
        const auto i = static_cast<std::uint32_t>(position / axis.total);
        const auto part = static_cast<std::uint32_t>(position % axis.total);
        taps.push_back({i, static_cast<std::uint32_t>(axis.total) - part});
        if (part != 0) taps.push_back({i + 1, part});
    }
    return axis;
}

// The largest in the middle of `size` with the aspect ratio of `wanted`, to the nearest pixel.
ImageSize crop_of(const ImageSize& size, const ImageSize& wanted) {
    const auto scaled = [](std::uint64_t side, std::uint64_t times, std::uint64_t by, std::uint32_t most) {
        return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((side * times + by / 2) / by, 1, most));
    };
    if (std::uint64_t{size.width} * wanted.height > std::uint64_t{size.height} * wanted.width)
        return {scaled(size.height, wanted.width, wanted.height, size.width), size.height};
    return {size.width, scaled(size.width, wanted.height, wanted.width, size.height)};
}

}  // namespace

Status check_image_size(std::uint64_t width, std::uint64_t height, std::uint64_t max_pixels) {
    if (width > kMaxImageFileSide || height > kMaxImageFileSide || width * height > max_pixels)
        return fail("image_data.too_large", std::to_string(width) + " x " + std::to_string(height) + " pixels");
    return {};
}

Expected<Pixels> decode_image(BytesView file, ImageColour colour, std::uint64_t max_pixels) {
    if (file.size() > kMaxImageFileBytes) return fail("image_data.too_large", std::to_string(file.size()) + " bytes");
    if (begins_with(file, kPngSignature)) return decode_png(file, colour, max_pixels);
    if (begins_with(file, kJpegSignature)) return decode_jpeg(file, colour, max_pixels);
    return fail("image_data.unknown_file", "neither PNG nor JPEG");
}

Pixels fit_image(const Pixels& image, const ImageSize& size) {
    ensure(size.width > 0 && size.height > 0 && image.size.width > 0 && image.size.height > 0, "images have pixels");
    const ImageSize crop = crop_of(image.size, size);
    const std::size_t left = (image.size.width - crop.width) / 2;
    const std::size_t top = (image.size.height - crop.height) / 2;
    const AxisTaps columns = taps_of(crop.width, size.width);
    const AxisTaps rows = taps_of(crop.height, size.height);
    const std::uint64_t total = columns.total * rows.total;
    const std::size_t channels = image.channels;
    Pixels fitted{size, image.channels, {}};
    fitted.values.reserve(std::size_t{size.width} * size.height * channels);
    std::vector<std::uint64_t> sums(size.width * channels);
    for (const std::vector<Tap>& row_taps : rows.taps) {
        std::fill(sums.begin(), sums.end(), 0);
        for (const Tap& row : row_taps) {
            const std::uint8_t* const pixels =
                image.values.data() + ((top + row.at) * image.size.width + left) * channels;
            std::uint64_t* sum = sums.data();
            for (const std::vector<Tap>& column_taps : columns.taps)
                for (std::size_t channel = 0; channel < channels; ++channel) {
                    std::uint64_t part = 0;
                    for (const Tap& column : column_taps)
                        part += std::uint64_t{column.weight} * pixels[column.at * channels + channel];
                    *sum++ += row.weight * part;
                }
        }
        for (const std::uint64_t sum : sums)
            fitted.values.push_back(static_cast<std::uint8_t>((sum + total / 2) / total));
    }
    return fitted;
}

}  // namespace quern::compute::program
