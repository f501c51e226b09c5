#include "compute/torchscript/converter.h"

#include <ATen/Parallel.h>
#include <caffe2/serialize/inline_container.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "compute/program/zip_directory.h"
#include "compute/torchscript/interpreter.h"

// Later versions of PyTorch write it. It has no kernel: nothing calls it.
TORCH_LIBRARY_FRAGMENT(aten, library) {
    library.def(
        "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float "
        "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor");
}

namespace quern::compute::torchscript {
namespace {

using torch::jit::TreeRef;

constexpr std::int64_t kOpset = 17;
constexpr std::int64_t kIrVersion = 8;
constexpr std::size_t kMaxLiteralDepth = 16;
constexpr std::size_t kMaxDetail = 600;

class ArchiveReader : public caffe2::serialize::ReadAdapterInterface {
public:
    explicit ArchiveReader(BytesView archive) : archive_(archive) {}
    [[nodiscard]] std::size_t size() const override { return archive_.size(); }
    std::size_t read(std::uint64_t pos, void* buf, std::size_t n, const char*) const override {
        if (pos >= archive_.size()) return 0;
        n = std::min<std::size_t>(n, archive_.size() - pos);
        std::memcpy(buf, archive_.data() + pos, n);
        return n;
    }

private:
    BytesView archive_;
};

// --- Code that libtorch would run
// -----------------------------------------------------------------------------------------

// Numbers, texts, None and the like, lists and tuples of them, names: what evaluates without a call.
bool is_literal(const TreeRef& tree, std::size_t depth = 0) {
    using namespace torch::jit;
    if (depth > kMaxLiteralDepth) return false;
    switch (tree->kind()) {
        case TK_CONST:
        case TK_STRINGLITERAL:
        case TK_NONE:
        case TK_TRUE:
        case TK_FALSE:
        case TK_VAR:
            return true;
        case '.':
            return is_literal(tree->trees()[0], depth + 1);
        case TK_UNARY_MINUS:
        case TK_LIST_LITERAL:
        case TK_TUPLE_LITERAL:
        case TK_LIST:
        case TK_OPTION:
            return std::all_of(tree->trees().begin(), tree->trees().end(),
                               [&](const TreeRef& each) { return is_literal(each, depth + 1); });
        default:
            return false;
    }
}

Status check_function(const torch::jit::Def& def) {
    if (def.name().name() == "__setstate__") return fail("torchscript.runs_code", "__setstate__");
    for (const torch::jit::Param& each : def.decl().params())
        if (each.defaultValue().present() && !is_literal(each.defaultValue().get().tree()))
            return fail("torchscript.runs_code",
                        "a default of " + def.name().name() + "() that is no literal: " + each.ident().name());
    return {};
}

Status check_class(const torch::jit::ClassDef& definition) {
    using namespace torch::jit;
    for (const Stmt& each : definition.body()) {
        if (each.kind() == TK_DEF) {
            QUERN_CHECK(check_function(Def(each.tree())));
        } else if (each.kind() == TK_ASSIGN) {
            // Of __annotations__["name"] = a type.
            const Assign assign(each.tree());
            if (assign.lhs_list().size() == 1 && assign.lhs().kind() == TK_SUBSCRIPT) continue;
            if (assign.rhs().present() && !is_literal(assign.rhs().get().tree()))
                return fail("torchscript.runs_code",
                            "a constant of " + definition.name().name() + " that is no literal");
        }
    }
    return {};
}

// A file of source text as libtorch's importer reads it.
Status check_source(std::string text, const std::string& name) {
    using namespace torch::jit;
    // Wherever it stands, whatever the parser makes of it.
    if (text.find("__setstate__") != std::string::npos) return fail("torchscript.runs_code", name + ": __setstate__");
    Parser parser(std::make_shared<Source>(std::move(text), name, 1));
    Lexer& lexer = parser.lexer();
    while (lexer.cur().kind != TK_EOF) {
        if (lexer.cur().kind == TK_CLASS_DEF) {
            QUERN_CHECK(check_class(ClassDef(parser.parseClass())));
        } else if (lexer.cur().kind == TK_DEF) {
            QUERN_CHECK(check_function(Def(parser.parseFunction(false))));
        } else {
            lexer.next();  // imports, the version's number
        }
    }
    return {};
}

// The part of a record's name below the archive's folder, as libtorch looks for it: in either case.
std::string name_within(const std::string& name) {
    std::string within = name.substr(std::min(name.find('/') + 1, name.size()));
    for (char& c : within)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return within;
}

// By the directory's own names: libtorch lists them cut to 511 bytes, and reads records by whole ones.
Status check_code(const std::shared_ptr<ArchiveReader>& archive, const std::vector<program::ZipRecord>& directory) {
    caffe2::serialize::PyTorchStreamReader reader(archive);
    for (const program::ZipRecord& each : directory) {
        const std::string name = name_within(each.name);
        // What says where the code of its records is, in archives from before PyTorch 1.4.
        if (name == "model.json") return fail("torchscript.runs_code", "an archive of a format that is no longer made");
        if (!name.starts_with("code/") || !name.ends_with(".py")) continue;
        const auto [data, size] = reader.getRecord(name);
        QUERN_CHECK(check_source(std::string(static_cast<const char*>(data.get()), size), name));
    }
    return {};
}

Expected<std::string> convert_checked(const std::shared_ptr<ArchiveReader>& archive, const InputForm& input,
                                      const std::vector<program::ZipRecord>& directory) {
    QUERN_CHECK(check_code(archive, directory));
    const torch::jit::Module module = torch::jit::load(archive, c10::Device(c10::kCPU));
    if (!module.find_method("forward")) return fail("torchscript.inputs", "no forward()");
    torch::jit::Inline(*module.get_method("forward").graph());
    onnx::ModelProto model;
    model.set_ir_version(kIrVersion);
    model.set_producer_name("quern-torchscript");
    onnx::OperatorSetIdProto& operators = *model.add_opset_import();
    operators.set_domain("");
    operators.set_version(kOpset);
    Sizes sizes{{0, 1}};
    for (const std::int64_t dim : input.dims) sizes.push_back({dim, 0});
    std::set<std::uint64_t> records;
    for (const program::ZipRecord& each : directory) records.insert(each.size);
    QUERN_CHECK(Interpreter(model, std::move(sizes), input.is_whole, std::move(records)).run(module));
    std::string bytes;
    if (model.ByteSizeLong() > kMaxArchiveBytes || !model.SerializeToString(&bytes))
        return fail("torchscript.too_large", "the network as a message");
    return bytes;
}

}  // namespace

void prepare() {
    at::set_num_threads(1);
    at::set_num_interop_threads(1);
    torch::jit::CompilationUnit unit;
    unit.define(c10::nullopt, "def f(x):\n  return x + 1\n", torch::jit::nativeResolver(), nullptr);
    (void)at::full({2, 2}, 1.0).triu(1).contiguous();
}

Expected<std::string> convert(BytesView archive, const InputForm& input) {
    if (archive.size() > kMaxArchiveBytes)
        return fail("torchscript.too_large", std::to_string(archive.size()) + " bytes");
    QUERN_TRY(const std::vector<program::ZipRecord> directory, program::read_zip_directory(archive));
    try {
        return convert_checked(std::make_shared<ArchiveReader>(archive), input, directory);
    } catch (const std::bad_alloc&) {
        return fail("torchscript.too_large", "more memory than there may be");
    } catch (const c10::Error& error) {
        return fail("torchscript.bad_archive", std::string(error.what_without_backtrace()).substr(0, kMaxDetail));
    } catch (const std::exception& error) {
        return fail("torchscript.bad_archive", std::string(error.what()).substr(0, kMaxDetail));
    }
}

}  // namespace quern::compute::torchscript
