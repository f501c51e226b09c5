// Images from bytes, good and hostile, and their sizes.
#include "compute/program/image_file.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/image_files.h"

namespace quern::compute::program {
namespace {

using test::append_chunk;
using test::jpeg_of;
using test::png_head;
using test::png_of;
using test::PngForm;

const Bytes kFour{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30};  // red, green, blue and nearly black, two by two

std::string refusal(const Bytes& file, std::uint64_t max_pixels = kMaxImagePixels) {
    const auto image = decode_image(file, ImageColour::rgb, max_pixels);
    return image ? "taken" : std::string(image.error().name);
}

Bytes rgb(const Bytes& file) {
    const auto image = decode_image(file, ImageColour::rgb);
    EXPECT_TRUE(image) << image.error().to_string();
    return image ? image->values : Bytes{};
}

Bytes gray(const Bytes& file) {
    const auto image = decode_image(file, ImageColour::gray);
    EXPECT_TRUE(image) << image.error().to_string();
    return image ? image->values : Bytes{};
}

// Two by two pixels by hand, with what `more` puts before the pixels.
Bytes png_with(std::string_view type, BytesView content) {
    Bytes file = png_head(2, 2);
    if (!type.empty()) append_chunk(file, type, content);
    Bytes rows;
    for (std::size_t row = 0; row < 2; ++row) {
        rows.push_back(0);
        append(rows, BytesView(kFour).subspan(row * 6, 6));
    }
    append_chunk(file, "IDAT", test::zlib_stored(rows));
    append_chunk(file, "IEND", {});
    return file;
}

TEST(ImageFile, reads_pixels_of_a_png_as_they_are) {
    const auto image = decode_image(png_of(2, 2, kFour), ImageColour::rgb);
    ASSERT_TRUE(image) << image.error().to_string();
    EXPECT_EQ(*image, (Pixels{{2, 2}, 3, kFour}));
    EXPECT_EQ(rgb(png_with("", {})), kFour);
    EXPECT_EQ(rgb(png_of(2, 2, kFour, {.interlaced = SPNG_INTERLACE_ADAM7})), kFour);
}

TEST(ImageFile, weighs_colours_for_gray) {
    EXPECT_EQ(gray(png_of(2, 2, kFour)), (Bytes{77, 149, 29, 18}));
    EXPECT_EQ(gray(png_of(1, 1, Bytes{255, 255, 255})), (Bytes{255}));
}

TEST(ImageFile, reads_gray_wide_and_small_samples) {
    const Bytes samples{0, 77, 128, 255};
    const Bytes as_gray = png_of(2, 2, samples, {.colour = SPNG_COLOR_TYPE_GRAYSCALE});
    EXPECT_EQ(gray(as_gray), samples);
    EXPECT_EQ(rgb(as_gray), (Bytes{0, 0, 0, 77, 77, 77, 128, 128, 128, 255, 255, 255}));
    const std::array<std::uint16_t, 4> wide{0x01ff, 0x0200, 0x80ff, 0xffff};
    const BytesView words(reinterpret_cast<const std::uint8_t*>(wide.data()), sizeof(wide));
    EXPECT_EQ(gray(png_of(2, 2, words, {.colour = SPNG_COLOR_TYPE_GRAYSCALE, .depth = 16})), (Bytes{1, 2, 128, 255}));
    EXPECT_EQ(gray(png_of(2, 2, Bytes{0x40, 0x80}, {.colour = SPNG_COLOR_TYPE_GRAYSCALE, .depth = 1})),
              (Bytes{0, 255, 255, 0}));
}

TEST(ImageFile, lays_what_is_transparent_on_white) {
    const Bytes pixels{100, 50, 0, 255, 100, 50, 0, 0, 101, 50, 0, 128, 0, 0, 0, 1};
    EXPECT_EQ(rgb(png_of(4, 1, pixels, {.colour = SPNG_COLOR_TYPE_TRUECOLOR_ALPHA})),
              (Bytes{100, 50, 0, 255, 255, 255, 178, 152, 127, 254, 254, 254}));
    EXPECT_EQ(rgb(png_of(1, 1, Bytes{100, 128}, {.colour = SPNG_COLOR_TYPE_GRAYSCALE_ALPHA})), (Bytes{177, 177, 177}));
    // A colour that stands for nothing, in 16 bits: green.
    EXPECT_EQ(rgb(png_with("tRNS", Bytes{0, 0, 0, 255, 0, 0})),
              (Bytes{255, 0, 0, 255, 255, 255, 0, 0, 255, 10, 20, 30}));
}

TEST(ImageFile, reads_jpegs) {
    const Bytes one_colour(16 * 8 * 3, 90);
    for (const int subsampling : {TJSAMP_444, TJSAMP_422, TJSAMP_420, TJSAMP_GRAY}) {
        const auto image = decode_image(jpeg_of(16, 8, one_colour, subsampling), ImageColour::rgb);
        ASSERT_TRUE(image) << image.error().to_string();
        EXPECT_EQ(*image, (Pixels{{16, 8}, 3, one_colour})) << subsampling;
    }
    EXPECT_EQ(rgb(jpeg_of(16, 8, one_colour, TJSAMP_420, TJPF_RGB, TJFLAG_PROGRESSIVE)), one_colour);
    const Bytes samples(8 * 8, 33);
    EXPECT_EQ(gray(jpeg_of(8, 8, samples, TJSAMP_GRAY, TJPF_GRAY)), samples);
    Bytes halves;  // left black, right white: the order of columns and rows
    for (int at = 0; at < 16 * 8; ++at) halves.insert(halves.end(), 3, at % 16 < 8 ? 0 : 255);
    const Bytes seen = gray(jpeg_of(16, 8, halves));
    ASSERT_EQ(seen.size(), 16U * 8);
    for (std::size_t at = 0; at < seen.size(); ++at) EXPECT_EQ(seen[at] > 128, at % 16 >= 8);
}

TEST(ImageFile, refuses_what_is_no_image) {
    EXPECT_EQ(refusal({}), "image_data.unknown_file");
    EXPECT_EQ(refusal(to_bytes(as_bytes("GIF89a"))), "image_data.unknown_file");
    EXPECT_EQ(refusal({0x89, 'P', 'N', 'G'}), "image_data.unknown_file");
    EXPECT_EQ(refusal({0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}), "image_data.bad_png");
    EXPECT_EQ(refusal({0xff, 0xd8, 0xff}), "image_data.bad_jpeg");
    const auto tables = decode_image(Bytes{0xff, 0xd8, 0xff, 0xd9}, ImageColour::rgb);
    ASSERT_FALSE(tables);
    EXPECT_EQ(tables.error().to_string(), "image_data.bad_jpeg: no pixels");
    EXPECT_EQ(refusal(Bytes(kMaxImageFileBytes + 1)), "image_data.too_large");
}

TEST(ImageFile, refuses_files_that_end_early) {
    const Bytes png = png_of(2, 2, kFour);
    for (std::size_t size = 8; size < png.size() - 4; ++size)  // of an IEND the name is enough
        EXPECT_EQ(refusal(Bytes(png.begin(), png.begin() + static_cast<std::ptrdiff_t>(size))), "image_data.bad_png")
            << size;
    Bytes noise(64 * 64 * 3);
    for (std::size_t at = 0; at < noise.size(); ++at) noise[at] = static_cast<std::uint8_t>(at * at / 7);
    for (const int flags : {0, TJFLAG_PROGRESSIVE}) {
        const Bytes jpeg = jpeg_of(64, 64, noise, TJSAMP_420, TJPF_RGB, flags);
        ASSERT_EQ(refusal(jpeg), "taken");
        for (std::size_t size = 3; size < jpeg.size() - 2; size += 97)
            EXPECT_EQ(refusal(Bytes(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(size))),
                      "image_data.bad_jpeg")
                << size;
    }
}

TEST(ImageFile, refuses_wrong_checksums) {
    ASSERT_EQ(refusal(png_with("tEXt", as_bytes(std::string_view("k\0v", 3)))), "taken");
    const Bytes good = png_with("tEXt", as_bytes(std::string_view("k\0v", 3)));
    // Behind IHDR's content, tEXt's, IDAT's.
    for (const std::size_t at : {std::size_t{29}, std::size_t{44}, good.size() - 13}) {
        Bytes bad = good;
        bad[at] ^= 1;
        EXPECT_EQ(refusal(bad), "image_data.bad_png") << at;
    }
    Bytes rows{0, 1, 2, 3};
    Bytes stream = test::zlib_stored(rows);
    stream.back() ^= 1;  // Adler-32
    Bytes file = png_head(1, 1);
    append_chunk(file, "IDAT", stream);
    append_chunk(file, "IEND", {});
    EXPECT_EQ(refusal(file), "image_data.bad_png");
}

TEST(ImageFile, refuses_sizes_before_it_takes_memory) {
    const auto png = [](std::uint32_t width, std::uint32_t height, std::uint8_t depth = 8,
                        spng_color_type colour = SPNG_COLOR_TYPE_GRAYSCALE) {
        Bytes file = png_head(width, height, depth, colour);
        append_chunk(file, "IDAT", test::zlib_stored(Bytes(10)));
        append_chunk(file, "IEND", {});
        return file;
    };
    EXPECT_EQ(refusal(png(kMaxImageFileSide + 1, 1)), "image_data.too_large");
    EXPECT_EQ(refusal(png(1, kMaxImageFileSide + 1)), "image_data.too_large");
    EXPECT_EQ(refusal(png(0x7fffffff, 0x7fffffff)), "image_data.too_large");
    EXPECT_EQ(refusal(png(kMaxImageFileSide, 4'097)), "image_data.too_large");
    EXPECT_EQ(refusal(png(0, 1)), "image_data.bad_png");
    EXPECT_EQ(refusal(png(5, 5), 24), "image_data.too_large");
    EXPECT_EQ(refusal(png(5, 5), 25), "image_data.bad_png");  // its rows are missing
    // So few bytes cannot be so many pixels; a bit more and the stream is looked at.
    const auto why = [](const Bytes& file) {
        const auto image = decode_image(file, ImageColour::rgb);
        return image ? "taken" : image.error().detail;
    };
    EXPECT_NE(why(png(16'384, 4'096)).find("too few bytes"), std::string::npos);
    EXPECT_NE(why(png(16'384, 4'096, 1)).find("too few bytes"), std::string::npos);
    EXPECT_EQ(why(png(250, 250)).find("too few bytes"), std::string::npos);
    for (const auto colour :
         {SPNG_COLOR_TYPE_GRAYSCALE_ALPHA, SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA})
        EXPECT_NE(why(png(250, 250, 8, colour)).find("too few bytes"), std::string::npos) << colour;
    EXPECT_NE(why(png(250, 250, 16)).find("too few bytes"), std::string::npos);
    Bytes jpeg = jpeg_of(16, 16, Bytes(16 * 16 * 3, 5));
    const std::array<std::uint8_t, 2> marker{0xff, 0xc0};
    const auto frame = std::search(jpeg.begin(), jpeg.end(), marker.begin(), marker.end());
    ASSERT_NE(frame, jpeg.end());
    const auto sized = [&](std::uint16_t width, std::uint16_t height) {
        for (const auto& [at, value] : {std::pair(5, height), std::pair(7, width)}) {
            frame[at] = static_cast<std::uint8_t>(value >> 8);
            frame[at + 1] = static_cast<std::uint8_t>(value);
        }
        return jpeg;
    };
    EXPECT_EQ(refusal(sized(65'500, 65'500)), "image_data.too_large");
    EXPECT_EQ(refusal(sized(16'384, 4'097)), "image_data.too_large");
    EXPECT_NE(why(sized(16'384, 4'096)).find("too few bytes"), std::string::npos);
    EXPECT_EQ(refusal(sized(0, 16)), "image_data.bad_jpeg");
    EXPECT_EQ(refusal(sized(16, 0)), "image_data.bad_jpeg");
    EXPECT_EQ(refusal(sized(16, 16)), "taken");
    EXPECT_EQ(refusal(sized(16, 16), 255), "image_data.too_large");
}

TEST(ImageFile, does_not_inflate_what_it_was_not_asked_for) {
    Bytes profile = to_bytes(as_bytes(std::string_view("k\0\0", 3)));
    append(profile, test::zlib_bomb(kMaxPngChunksBytes + 1'000));
    EXPECT_EQ(refusal(png_with("iCCP", profile)), "image_data.bad_png");
    EXPECT_EQ(refusal(png_with("zTXt", profile)), "image_data.bad_png");
    // Behind the pixels: left where it is.
    Bytes file = png_head(1, 1);
    append_chunk(file, "IDAT", test::zlib_bomb(100'000'000));
    append_chunk(file, "IEND", {});
    EXPECT_EQ(rgb(file), (Bytes{0, 0, 0}));
}

TEST(ImageFile, refuses_inks) {
    const Bytes inks(8 * 8 * 4, 100);
    for (const int subsampling : {TJSAMP_444, TJSAMP_420})
        EXPECT_EQ(refusal(jpeg_of(8, 8, inks, subsampling, TJPF_CMYK)), "image_data.cmyk_jpeg");
    // These are YCCK. What Adobe's marker says of the transform makes them CMYK.
    Bytes jpeg = jpeg_of(8, 8, inks, TJSAMP_444, TJPF_CMYK);
    const BytesView adobe = as_bytes(std::string_view("Adobe"));
    const auto marker = std::search(jpeg.begin(), jpeg.end(), adobe.begin(), adobe.end());
    ASSERT_NE(marker, jpeg.end());
    ASSERT_EQ(marker[11], 2);
    marker[11] = 0;
    EXPECT_EQ(refusal(jpeg), "image_data.cmyk_jpeg");
}

TEST(ImageFile, ends_a_jpeg_of_endless_scans) {
    const Bytes whole = jpeg_of(8, 8, Bytes(8 * 8, 200), TJSAMP_GRAY, TJPF_GRAY, TJFLAG_PROGRESSIVE);
    const std::array<std::uint8_t, 2> scan_marker{0xff, 0xda};
    const auto scan = std::search(whole.begin(), whole.end(), scan_marker.begin(), scan_marker.end());
    ASSERT_NE(scan, whole.end());
    // That of the DC coefficient, made to give all of its bits, which may come any number of times.
    Bytes first(scan, scan + 10);
    ASSERT_EQ(first.back(), 1);
    first.back() = 0;
    for (auto at = scan + 10; at[0] != 0xff || at[1] == 0; ++at) first.push_back(*at);
    const auto repeated = [&](int times) {
        Bytes jpeg(whole.begin(), scan);
        for (int i = 0; i < times; ++i) append(jpeg, first);
        append(jpeg, Bytes{0xff, 0xd9});
        return jpeg;
    };
    EXPECT_EQ(refusal(repeated(1)), "taken");
    EXPECT_EQ(refusal(repeated(499)), "taken");
    EXPECT_EQ(refusal(repeated(600)), "image_data.bad_jpeg");
}

// --- Sizes -----------------------------------------------------------------------------------------------------------
Bytes fitted(std::uint32_t width, std::uint32_t height, Bytes values, const ImageSize& size,
             std::uint32_t channels = 1) {
    const Pixels result = fit_image({{width, height}, channels, std::move(values)}, size);
    EXPECT_EQ(result.size, size);
    EXPECT_EQ(result.channels, channels);
    return result.values;
}

TEST(FitImage, leaves_an_image_of_that_size_as_it_is) {
    Bytes values;
    for (int i = 0; i < 5 * 3 * 3; ++i) values.push_back(static_cast<std::uint8_t>(i * 5));
    EXPECT_EQ(fitted(5, 3, values, {5, 3}, 3), values);
}

TEST(FitImage, takes_the_mean_of_what_a_pixel_covers) {
    EXPECT_EQ(fitted(2, 2, {0, 1, 2, 3}, {1, 1}), (Bytes{2}));  // 1.5, half up
    EXPECT_EQ(fitted(4, 4, {0, 4, 8, 12, 2, 6, 10, 14, 100, 100, 200, 200, 100, 100, 200, 200}, {2, 2}),
              (Bytes{3, 11, 100, 200}));
    // Three to two: a pixel and the half of the next, each way.
    EXPECT_EQ(fitted(3, 3, {0, 30, 60, 0, 30, 60, 0, 30, 60}, {2, 2}), (Bytes{10, 50, 10, 50}));
    EXPECT_EQ(fitted(3, 3, {9, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 2}), (Bytes{4, 0, 0, 0}));
    EXPECT_EQ(fitted(2, 2, {0, 10, 20, 100, 110, 120, 0, 10, 20, 100, 110, 120}, {1, 1}, 3), (Bytes{50, 60, 70}));
}

TEST(FitImage, draws_lines_between_centres) {
    // Centres of four on two: -1/4, 1/4, 3/4, 5/4.
    EXPECT_EQ(fitted(2, 2, {0, 100, 0, 100}, {4, 4}),
              (Bytes{0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100, 0, 25, 75, 100}));
    EXPECT_EQ(fitted(2, 2, {0, 0, 100, 100}, {4, 4}),
              (Bytes{0, 0, 0, 0, 25, 25, 25, 25, 75, 75, 75, 75, 100, 100, 100, 100}));
    EXPECT_EQ(fitted(1, 1, {7}, {3, 3}), Bytes(9, 7));
    EXPECT_EQ(fitted(2, 2, {0, 100, 0, 100}, {3, 3}), (Bytes{0, 50, 100, 0, 50, 100, 0, 50, 100}));
}

TEST(FitImage, crops_to_the_middle) {
    EXPECT_EQ(fitted(4, 2, {9, 1, 2, 9, 9, 3, 4, 9}, {2, 2}), (Bytes{1, 2, 3, 4}));
    EXPECT_EQ(fitted(2, 4, {9, 9, 1, 2, 3, 4, 9, 9}, {2, 2}), (Bytes{1, 2, 3, 4}));
    EXPECT_EQ(fitted(5, 1, {1, 2, 3, 4, 5}, {1, 1}), (Bytes{3}));
    EXPECT_EQ(fitted(4, 1, {1, 2, 3, 4}, {1, 1}), (Bytes{2}));  // of two middles the first
    EXPECT_EQ(fitted(3, 3, {9, 9, 9, 4, 5, 6, 9, 9, 9}, {3, 1}), (Bytes{4, 5, 6}));
    EXPECT_EQ(fitted(3, 4, {0, 0, 0, 10, 10, 10, 30, 30, 30, 0, 0, 0}, {2, 1}), (Bytes{20, 20}));  // 1.5 rows: two
    EXPECT_EQ(fitted(1, 8, {1, 2, 3, 4, 5, 6, 7, 8}, {900, 1}), Bytes(900, 4));                    // at least a pixel
}

TEST(FitImage, does_not_overflow_at_the_largest_sizes) {
    EXPECT_EQ(fitted(kMaxImageFileSide, 4'096, Bytes(kMaxImagePixels, 255), {4, 1}), Bytes(4, 255));
    EXPECT_EQ(fitted(4, 1, Bytes(4, 255), {kMaxImageFileSide, 4'096}), Bytes(kMaxImagePixels, 255));
}

}  // namespace
}  // namespace quern::compute::program
