// The trained model as an ONNX file beside the safetensors, where it came as one.
#include "compute/client/export.h"

#include "compute/client/local.h"
#include "compute/client/result.h"
#include "compute/program/onnx_file.h"
#include "compute/program/safetensors.h"
#include "small_training.h"

namespace quern::compute::client {
namespace {

class ExportTest : public test::SmallTraining {
protected:
    ExportTest() {
        const Bytes network = *fs::read_file(std::string(QUERN_ONNX_VECTORS) + "/resnet.onnx", 1U << 20);
        Bytes images(10 * 3 * 16 * 16);
        for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(i * i * 7);
        options_.model = write("net.onnx", network);
        options_.data = {write("images.u8", images), write("labels.u8", Bytes{0, 1, 2, 3, 0, 1, 2, 3, 0, 1})};
        options_.fit.batch = 4;
        options_.updates = 3;
        options_.export_onnx = directory_ + "/trained.onnx";
    }
    Status train() {
        QUERN_TRY(JobFile file, JobFile::open(options_.out));
        QUERN_TRY(const Training training, prepare());
        return train_here(options_, training, file, {[&](const Event& event) { last_ = event.data; }, {}}, stop_);
    }
    [[nodiscard]] std::string refusal() const {
        const auto training = prepare();
        return std::string(training ? "none" : training.error().name);
    }
    [[nodiscard]] Bytes exported() const { return *fs::read_file(options_.export_onnx, 1U << 20); }

    std::atomic<bool> stop_{false};
    json::Value last_;
};

TEST_F(ExportTest, has_the_words_of_the_safetensors) {
    const Status done = train();
    ASSERT_TRUE(done) << done.error().to_string();
    EXPECT_EQ(last_.get_string("onnx").value_or(""), options_.export_onnx);
    const auto model = program::read_safetensors(*fs::read_file(options_.out, 1U << 20));
    const auto given = program::read_onnx(*fs::read_file(options_.model, 1U << 20));
    const auto onnx = program::read_onnx(exported());
    ASSERT_TRUE(model && given && onnx);
    std::size_t changed = 0;
    for (const program::NamedTensor& each : model->tensors) {
        EXPECT_EQ(*onnx->initializers.at(each.name).floats, each.tensor.words) << each.name;
        EXPECT_EQ(onnx->initializers.at(each.name).dims, given->initializers.at(each.name).dims);
        changed += *given->initializers.at(each.name).floats != each.tensor.words ? 1 : 0;
    }
    EXPECT_EQ(changed, model->tensors.size()) << "all was trained";
}

TEST_F(ExportTest, is_written_again_where_it_is_lost_or_another) {
    ASSERT_TRUE(train());
    const Bytes before = exported();
    ASSERT_TRUE(fs::remove_file(options_.export_onnx));
    ASSERT_TRUE(train());
    EXPECT_EQ(exported(), before);
    ASSERT_TRUE(fs::write_file_atomic(options_.export_onnx, Bytes(7)));
    ASSERT_TRUE(train());
    EXPECT_EQ(exported(), before);
    options_.export_onnx = directory_ + "/second.onnx";
    ASSERT_TRUE(train()) << "asked for after the end";
    EXPECT_EQ(exported(), before);
}

TEST_F(ExportTest, is_of_the_file_that_was_trained) {
    auto training = prepare();
    ASSERT_TRUE(training) << training.error().to_string();
    Bytes other = *fs::read_file(options_.model, 1U << 20);
    other.back() ^= 1U;
    ASSERT_TRUE(fs::write_file_atomic(options_.model, other));
    const Status written = write_result(options_, *training, training->initial, job_folder(options_.out));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().name, "train.model_changed");
    EXPECT_FALSE(fs::exists(options_.export_onnx));
}

TEST_F(ExportTest, takes_the_place_of_nothing_that_is_needed) {
    ASSERT_TRUE(fs::create_directories(directory_ + "/sub"));
    for (const std::string& place :
         {options_.model, directory_ + "/sub/../net.onnx", options_.data[1], options_.out, job_path(options_.out)}) {
        options_.export_onnx = place;
        EXPECT_EQ(refusal(), "train.same_file") << place;
    }
    options_.export_onnx = directory_ + "/sub";
    EXPECT_EQ(refusal(), "train.out_is_a_folder");
    options_.export_onnx = directory_ + "/none/trained.onnx";
    EXPECT_EQ(refusal(), "train.no_folder");
    options_.export_onnx = directory_ + "/sub/trained.onnx";
    EXPECT_EQ(refusal(), "none");
}

TEST_F(ExportTest, there_is_none_of_what_is_no_network_in_a_file) {
    options_.model = write("arch.json", as_bytes(test::model_text()));
    options_.data = {write("data.u8", Bytes(test::kElements))};
    EXPECT_EQ(refusal(), "train.no_onnx");
    options_.export_onnx.clear();
    EXPECT_EQ(refusal(), "none");
}

}  // namespace
}  // namespace quern::compute::client
