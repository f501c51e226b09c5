// A model that trains in milliseconds, its data and a folder for what a job leaves, for the tests of quern-train's
// parts.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "base/fs.h"
#include "compute/client/training.h"

namespace quern::compute::client::test {

inline constexpr std::uint32_t kElements = 121;
inline constexpr std::uint64_t kSteps = 40;

inline std::string model_text(std::uint64_t total_steps = kSteps) {
    return R"({"format":"quern-arch-1","model":{"type":"char_transformer","layers":1,"d_model":8,"heads":2,"context":6,)"
           R"("mlp_ratio":2,"vocab":11},"data":{"dtype":"u8","elements":)" +
           std::to_string(kElements) + R"(},"batch":3,"optimizer":{"type":"adamw","lr":3e-3)" +
           (total_steps == 0 ? "" : R"(,"total_steps":)" + std::to_string(total_steps)) + "}}";
}

class SmallTraining : public ::testing::Test {
protected:
    SmallTraining() {
        std::string name = ::testing::TempDir() + "quern-train-XXXXXX";
        directory_ = ::mkdtemp(name.data());
        Bytes tokens;
        for (std::uint32_t i = 0; i < kElements; ++i) tokens.push_back(static_cast<std::uint8_t>(i * i % 11));
        options_.model = write("arch.json", as_bytes(model_text()));
        options_.data = {write("data.u8", tokens)};
        options_.out = directory_ + "/model.safetensors";
        options_.threads = 1;
        EXPECT_TRUE(fs::create_directories(job_folder(options_.out)));
    }
    ~SmallTraining() override { std::filesystem::remove_all(directory_); }

    std::string write(const std::string& name, BytesView bytes) const {
        const std::string path = directory_ + "/" + name;
        EXPECT_TRUE(fs::write_file_atomic(path, bytes));
        return path;
    }
    [[nodiscard]] Expected<Training> prepare() const { return prepare_training(options_, job_folder(options_.out)); }

    std::string directory_;
    TrainOptions options_;
};

}  // namespace quern::compute::client::test
