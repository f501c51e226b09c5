// Folders of images as data tensors: order, labels, refusals by name, and what is left on disk.
#include "compute/program/image_dataset.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/fs.h"
#include "base/json.h"
#include "crypto/content_id.h"
#include "support/image_files.h"

namespace quern::compute::program {
namespace {

Bytes png_of_one_colour(std::uint8_t red, std::uint8_t green, std::uint8_t blue) {
    return test::png_of(1, 1, Bytes{red, green, blue});
}

class ImageDatasets : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "quern-images-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        base_ = pattern;
        options_.folder = base_ + "/in";
        options_.images = base_ + "/out.u8";
        options_.labels = base_ + "/out.labels";
        options_.size = {1, 1};
        ASSERT_TRUE(fs::create_directories(options_.folder));
    }
    void TearDown() override { std::filesystem::remove_all(base_); }

    void put(const std::string& name, const Bytes& content) const {
        const std::string path = options_.folder + "/" + name;
        ASSERT_TRUE(fs::create_directories(std::filesystem::path(path).parent_path().string()));
        ASSERT_TRUE(fs::write_file_atomic(path, content));
    }
    // Two classes of one and two images.
    void put_three() const {
        put("b/1.png", png_of_one_colour(1, 2, 3));
        put("a/2.PNG", png_of_one_colour(4, 5, 6));
        put("a/10.jpeg", test::jpeg_of(8, 8, Bytes(8 * 8 * 3, 70)));
    }
    [[nodiscard]] std::string refusal(const ImageLimits& limits = {}) const {
        const auto found = list_images(options_.folder, options_.skip_others, options_.per_class, limits);
        return found ? "taken" : std::string(found.error().name);
    }
    // Names in the folder of what is written.
    [[nodiscard]] std::vector<std::string> left() const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(base_))
            if (entry.path().filename() != "in") names.push_back(entry.path().filename().string());
        std::sort(names.begin(), names.end());
        return names;
    }

    std::string base_;
    ImageDatasetOptions options_;
};

TEST_F(ImageDatasets, orders_classes_and_files_by_the_bytes_of_their_names) {
    put_three();
    put("B/x.jpg", test::jpeg_of(8, 8, Bytes(8 * 8 * 3, 9)));
    put("\xc3\xa9/x.png", png_of_one_colour(7, 8, 9));
    const auto dataset = write_image_dataset(options_);
    ASSERT_TRUE(dataset) << dataset.error().to_string();
    EXPECT_EQ(dataset->classes, (std::vector<std::string>{"B", "a", "b", "\xc3\xa9"}));
    EXPECT_EQ(dataset->count, 5U);
    const Bytes images = *fs::read_file(options_.images, 1'000);
    const Bytes labels = *fs::read_file(options_.labels, 1'000);
    EXPECT_EQ(images, (Bytes{9, 9, 9, 70, 70, 70, 4, 5, 6, 1, 2, 3, 7, 8, 9}));
    EXPECT_EQ(labels, (Bytes{0, 1, 1, 2, 3}));
    EXPECT_EQ(dataset->images_root, crypto::content_id_of(images));
    EXPECT_EQ(dataset->labels_root, crypto::content_id_of(labels));
    EXPECT_EQ(left(), (std::vector<std::string>{"out.labels", "out.u8", "out.u8.json"}));
}

TEST_F(ImageDatasets, describes_what_it_wrote) {
    put_three();
    options_.size = {4, 2};
    options_.colour = ImageColour::gray;
    ASSERT_TRUE(write_image_dataset(options_));
    const auto description = json::parse(*fs::read_text_file(options_.images + ".json", 10'000));
    ASSERT_TRUE(description);
    EXPECT_EQ(description->dump(),
              R"({"format":"quern-images-1","dtype":"u8","elements":24,"height":2,"width":4,"channels":1,"count":3,)"
              R"("classes":["a","b"],"labels":{"dtype":"u8","elements":3}})");
    EXPECT_EQ(fs::read_file(options_.images, 1'000)->size(), 24U);
}

TEST_F(ImageDatasets, takes_the_first_of_each_class) {
    put_three();
    options_.per_class = 1;
    const auto dataset = write_image_dataset(options_);
    ASSERT_TRUE(dataset) << dataset.error().to_string();
    EXPECT_EQ(*fs::read_file(options_.images, 1'000), (Bytes{70, 70, 70, 1, 2, 3}));
}

TEST_F(ImageDatasets, labels_are_wider_when_there_are_more_than_256_classes) {
    const Bytes png = png_of_one_colour(1, 1, 1);
    for (int i = 0; i < 256; ++i) put(std::to_string(1'000 + i) + "/x.png", png);
    auto dataset = write_image_dataset(options_);
    ASSERT_TRUE(dataset) << dataset.error().to_string();
    EXPECT_EQ(dataset->label_type(), vm::tensor::DataType::u8);
    EXPECT_EQ(fs::read_file(options_.labels, 1'000)->back(), 255);
    put("2000/x.png", png);
    dataset = write_image_dataset(options_);
    ASSERT_TRUE(dataset) << dataset.error().to_string();
    EXPECT_EQ(dataset->label_type(), vm::tensor::DataType::u16);
    const Bytes labels = *fs::read_file(options_.labels, 1'000);
    ASSERT_EQ(labels.size(), 2U * 257);
    EXPECT_EQ(Bytes(labels.begin() + 508, labels.end()), (Bytes{254, 0, 255, 0, 0, 1}));
    EXPECT_NE(describe_image_dataset(*dataset).find("u16"), std::string::npos);
}

TEST_F(ImageDatasets, refuses_other_files_or_leaves_them_out) {
    put_three();
    for (const std::string name : {"README", "a/notes.txt", "a/.png", "a/deeper/x.png", "b/png"}) {
        options_.skip_others = false;
        put(name, png_of_one_colour(1, 1, 1));
        const auto refused = list_images(options_.folder, false, 0);
        ASSERT_FALSE(refused) << name;
        EXPECT_EQ(refused.error().name, "image_data.unknown_file");
        const bool deeper = name == "a/deeper/x.png";
        EXPECT_EQ(refused.error().detail, options_.folder + "/" + (deeper ? "a/deeper" : name));
        const auto found = list_images(options_.folder, true, 0);
        ASSERT_TRUE(found) << found.error().to_string();
        EXPECT_EQ(found->skipped, 1U);
        EXPECT_EQ(found->images, 3U);
        std::filesystem::remove_all(options_.folder + "/" + (deeper ? "a/deeper" : name));
    }
    ASSERT_EQ(::mkfifo((options_.folder + "/a/pipe.png").c_str(), 0600), 0);
    EXPECT_EQ(refusal(), "image_data.unknown_file");
}

TEST_F(ImageDatasets, refuses_links) {
    put_three();
    options_.skip_others = true;
    for (const std::string name : {"a/link.png", "c", "a/README"}) {
        const std::string path = options_.folder + "/" + name;
        ASSERT_EQ(::symlink(options_.folder.c_str(), path.c_str()), 0);
        EXPECT_EQ(refusal(), "image_data.link") << name;
        ASSERT_EQ(::unlink(path.c_str()), 0);
    }
    EXPECT_EQ(refusal(), "taken");
}

TEST_F(ImageDatasets, refuses_folders_that_hold_no_examples) {
    EXPECT_EQ(refusal(), "image_data.no_classes");
    ASSERT_TRUE(fs::create_directories(options_.folder + "/a"));
    EXPECT_EQ(refusal(), "image_data.empty_class");
    options_.skip_others = true;
    put("a/README", {1});
    EXPECT_EQ(refusal(), "image_data.empty_class");
    options_.folder += "/none";
    const auto missing = list_images(options_.folder, false, 0);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().name, "image_data.cannot_list");
    EXPECT_TRUE(missing.error().is_local_fault());
}

TEST_F(ImageDatasets, has_limits) {
    put_three();
    EXPECT_EQ(refusal({.classes = 2}), "taken");
    EXPECT_EQ(refusal({.classes = 1}), "image_data.too_many_classes");
    EXPECT_EQ(refusal({.images = 3}), "taken");
    EXPECT_EQ(refusal({.images = 2}), "image_data.too_many_images");
    EXPECT_EQ(refusal({.images = 1}), "image_data.too_many_images");
    EXPECT_EQ(refusal({.name_bytes = 7}), "taken");
    EXPECT_EQ(refusal({.name_bytes = 6}), "image_data.bad_name");
    EXPECT_EQ(refusal({.file_bytes = 60}), "image_data.too_large");
    put("\x1b[2J/x.png", png_of_one_colour(1, 1, 1));
    EXPECT_EQ(refusal(), "image_data.bad_name");
    std::filesystem::remove_all(options_.folder + "/\x1b[2J");
    put("a\xff/x.png", png_of_one_colour(1, 1, 1));
    EXPECT_EQ(refusal(), "image_data.bad_name");
    EXPECT_EQ(*image_elements(1'000, {3, 5}, 2), 30'000U);
    EXPECT_EQ(*image_elements(1ULL << 47, {1, 1}, 1), 1ULL << 47);
    EXPECT_EQ(image_elements(10'000'000, {1 << 13, 1 << 13}, 3).error().name, "image_data.too_large");
    EXPECT_EQ(image_elements((1ULL << 48) + 1, {1, 1}, 1).error().name, "image_data.too_large");
}

TEST_F(ImageDatasets, leaves_nothing_where_it_fails) {
    put_three();
    put("b/2.png", Bytes{0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0});
    auto refused = write_image_dataset(options_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "image_data.bad_png");
    EXPECT_TRUE(refused.error().detail.starts_with(options_.folder + "/b/2.png: ")) << refused.error().detail;
    EXPECT_TRUE(left().empty());
    put("b/2.png", png_of_one_colour(1, 1, 1));
    ASSERT_TRUE(fs::create_directories(options_.images + ".json/full"));
    refused = write_image_dataset(options_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().name, "fs.write_failed");
    EXPECT_EQ(left(), (std::vector<std::string>{"out.u8.json"}));
    options_.images = base_ + "/no/out.u8";
    EXPECT_EQ(write_image_dataset(options_).error().name, "fs.write_failed");
    EXPECT_EQ(left(), (std::vector<std::string>{"out.u8.json"}));
}

TEST_F(ImageDatasets, refuses_outputs_that_are_one_file) {
    put_three();
    for (const std::string labels : {"out.u8", "./out.u8", "out.u8.json", "in/../out.u8.json"}) {
        options_.labels = base_ + "/" + labels;
        EXPECT_EQ(write_image_dataset(options_).error().name, "image_data.same_output") << labels;
    }
    EXPECT_TRUE(left().empty());
}

TEST_F(ImageDatasets, refuses_sizes_that_are_none) {
    put_three();
    EXPECT_EQ(*parse_image_size("32x24"), (ImageSize{32, 24}));
    EXPECT_EQ(*parse_image_size("16384x4096"), (ImageSize{16'384, 4'096}));
    for (const std::string_view text : {"", "32", "x32", "32x", "0x4", "4x0", "-1x4", "4x4x4", "4X4", "4 x4", "4x4 ",
                                        "99999999999x1", "1x99999999999"})
        EXPECT_EQ(parse_image_size(text).error().name, "image_data.bad_size") << text;
    for (const std::string_view text : {"16385x1", "1x16385", "16384x4097"})
        EXPECT_EQ(parse_image_size(text).error().name, "image_data.too_large") << text;
    options_.size = {0, 1};
    EXPECT_EQ(write_image_dataset(options_).error().name, "image_data.bad_size");
    options_.size = {16'385, 1};
    EXPECT_EQ(write_image_dataset(options_).error().name, "image_data.too_large");
}

}  // namespace
}  // namespace quern::compute::program
