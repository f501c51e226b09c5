#include "compute/core/task_plan.h"

#include <algorithm>

#include "base/ensure.h"
#include "base/rlp.h"
#include "crypto/merkle.h"

namespace quern::compute::core {

using vm::tensor::ProgramHeader;

namespace {

Status read_body(rlp::Reader& reader, std::vector<PlanItem>& body, unsigned depth) {
    if (depth > kMaxPlanDepth) return fail("plan.too_deep", "at most 4 bodies in each other");
    QUERN_TRY(rlp::Reader items, reader.list());
    while (!items.at_end()) {
        if (body.size() == kMaxPlanItems) return fail("plan.bad_body", "more than 16 items");
        QUERN_TRY(const rlp::Item item, items.next());
        rlp::Reader whole(item.whole);
        PlanItem& made = body.emplace_back();
        if (!item.is_list) {
            QUERN_TRY(const std::uint64_t program, whole.u64());
            if (program >= kMaxPlanPrograms) return fail("plan.bad_program", std::to_string(program));
            made.program = static_cast<std::uint32_t>(program);
            continue;
        }
        QUERN_TRY(rlp::Reader repeat, whole.list());
        QUERN_TRY(made.count, repeat.u64());
        if (made.count < 2) return fail("plan.bad_count", "a repeat repeats");
        QUERN_CHECK(read_body(repeat, made.body, depth + 1));
        QUERN_CHECK(repeat.expect_end());
    }
    return {};
}

void write_body(rlp::Writer& writer, const std::vector<PlanItem>& body) {
    writer.begin_list();
    for (const PlanItem& item : body) {
        if (item.count == 1) {
            writer.integer(std::uint64_t{item.program});
            continue;
        }
        writer.begin_list().integer(item.count);
        write_body(writer, item.body);
        writer.end_list();
    }
    writer.end_list();
}

// All that the chain can see of "one slot list, one data set".
bool agree(const ProgramHeader& a, const ProgramHeader& b) {
    return a.data == b.data && a.slot_count == b.slot_count && a.slot_root == b.slot_root &&
           a.loss_slot == b.loss_slot && a.sizes.commit_work == b.sizes.commit_work &&
           a.sizes.state_bytes == b.sizes.state_bytes;
}

Status check_programs(const std::vector<PlanProgram>& programs) {
    if (programs.empty() || programs.size() > kMaxPlanPrograms)
        return fail("plan.bad_program_count", std::to_string(programs.size()) + ", may be 1 to 8");
    for (const PlanProgram& program : programs) {
        QUERN_CHECK(vm::tensor::check_header(program.header));
        if (!agree(program.header, programs.front().header))
            return fail("plan.programs_differ", "in data, slots, loss slot, commit work or state bytes");
    }
    return {};
}

// a * b, at most kMaxPlanSteps + 1: nothing of a plan that is too long is reckoned with.
std::uint64_t saturated(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t kMost = kMaxPlanSteps + 1;
    return b != 0 && a > kMost / b ? kMost : std::min(a * b, kMost);
}

}  // namespace

std::vector<PlanItem> plain_body(std::uint64_t steps) {
    if (steps == 1) return {plan_step(0)};
    return {plan_repeat(steps, {plan_step(0)})};
}

std::uint64_t TaskPlan::work_of(std::uint32_t program) const { return programs_[program].header.work_units; }

Expected<std::size_t> TaskPlan::add_level(const std::vector<PlanItem>& body, unsigned depth, std::vector<bool>& used) {
    if (depth > kMaxPlanDepth) return fail("plan.too_deep", "at most 4 bodies in each other");
    if (body.empty() || body.size() > kMaxPlanItems)
        return fail("plan.bad_body", std::to_string(body.size()) + " items, may be 1 to 16");
    if (depth > 1 && body.size() == 1 && body.front().count != 1)
        return fail("plan.not_shortest", "a repeat of one repeat");
    const std::size_t number = levels_.size();
    if (number == kMaxPlanBodies) return fail("plan.too_many_bodies", "at most 64");
    levels_.emplace_back();
    Level level;
    for (std::size_t i = 0; i < body.size(); ++i) {
        const PlanItem& item = body[i];
        if (i != 0 && item == body[i - 1]) return fail("plan.not_shortest", "two equal items, one after the other");
        Entry entry{level.steps, level.work, item.program, item.count, 0};
        std::uint64_t steps = 1;
        if (item.count == 1) {
            if (!item.body.empty()) return fail("plan.bad_count", "a repeat repeats");
            if (item.program >= programs_.size()) return fail("plan.bad_program", std::to_string(item.program));
            used[item.program] = true;
            level.work += Uint256(work_of(item.program));
            level.largest = std::max(level.largest, work_of(item.program));
        } else {
            if (item.count == 0 || item.count > kMaxPlanCount)
                return fail("plan.bad_count", std::to_string(item.count) + ", may be 2 to 2^32");
            if (item.program != 0) return fail("plan.bad_program", "of a repeat");
            QUERN_TRY(entry.level, add_level(item.body, depth + 1, used));
            const Level& inner = levels_[entry.level];
            steps = saturated(inner.steps, item.count);
            level.work += inner.work * Uint256(item.count);
            level.largest = std::max(level.largest, inner.largest);
        }
        level.steps += steps;
        if (level.steps > kMaxPlanSteps) return fail("plan.too_many_steps", "at most 2^40");
        level.entries.push_back(entry);
    }
    levels_[number] = std::move(level);
    return number;
}

Expected<TaskPlan> TaskPlan::make(std::vector<PlanProgram> programs, std::vector<PlanItem> body) {
    QUERN_CHECK(check_programs(programs));
    TaskPlan plan;
    plan.programs_ = std::move(programs);
    plan.body_ = std::move(body);
    std::vector<bool> used(plan.programs_.size());
    QUERN_TRY(const std::size_t outermost, plan.add_level(plan.body_, 1, used));
    ensure(outermost == 0, "the outermost body is the first level");
    if (std::find(used.begin(), used.end(), false) != used.end())
        return fail("plan.unused_program", "each program has a step");
    rlp::Writer writer;
    writer.begin_list().integer(kPlanFormat).begin_list();
    for (const PlanProgram& program : plan.programs_) writer.fixed(program.root);
    writer.end_list().begin_list();
    for (const PlanProgram& program : plan.programs_) writer.raw(vm::tensor::encode(program.header));
    writer.end_list();
    write_body(writer, plan.body_);
    writer.end_list();
    plan.bytes_ = std::move(writer).finish();
    if (plan.bytes_.size() > kMaxPlanBytes)
        return fail("plan.too_large", std::to_string(plan.bytes_.size()) + " bytes, at most 8 KiB");
    return plan;
}

Expected<TaskPlan> TaskPlan::decode(BytesView bytes) {
    if (bytes.size() > kMaxPlanBytes)
        return fail("plan.too_large", std::to_string(bytes.size()) + " bytes, at most 8 KiB");
    QUERN_TRY(rlp::Reader reader, rlp::decode_list(bytes));
    QUERN_TRY(const std::uint64_t format, reader.u64());
    if (format != kPlanFormat) return fail("plan.unknown_format", std::to_string(format));
    QUERN_TRY(rlp::Reader roots, reader.list());
    QUERN_TRY(rlp::Reader headers, reader.list());
    std::vector<PlanProgram> programs;
    while (!roots.at_end()) {
        if (programs.size() == kMaxPlanPrograms) return fail("plan.bad_program_count", "more than 8");
        PlanProgram& program = programs.emplace_back();
        QUERN_TRY(program.root, roots.fixed<Hash32::kSize>());
        if (headers.at_end()) return fail("plan.bad_program_count", "a header for each program");
        QUERN_TRY(const rlp::Item header, headers.next());
        QUERN_TRY(program.header, vm::tensor::decode_header(header.whole));
    }
    if (!headers.at_end()) return fail("plan.bad_program_count", "a header for each program");
    std::vector<PlanItem> body;
    QUERN_CHECK(read_body(reader, body, 1));
    QUERN_CHECK(reader.expect_end());
    return make(std::move(programs), std::move(body));
}

Hash32 TaskPlan::id() const { return crypto::merkle_leaf(bytes_); }

TaskPlan::Place TaskPlan::find(std::uint64_t step) const {
    ensure(step != 0 && step <= steps(), "a step of the plan");
    std::uint64_t left = step - 1;  // of the level, before the step
    Uint256 before;
    for (const Level* level = &levels_.front();;) {
        const auto behind = std::upper_bound(level->entries.begin(), level->entries.end(), left,
                                             [](std::uint64_t at, const Entry& entry) { return at < entry.first; });
        const Entry& entry = *std::prev(behind);
        left -= entry.first;
        before += entry.before;
        if (entry.count == 1) return {entry.program, before};
        level = &levels_[entry.level];
        before += level->work * Uint256(left / level->steps);
        left %= level->steps;
    }
}

std::uint32_t TaskPlan::program_of(std::uint64_t step) const { return find(step).program; }

Uint256 TaskPlan::work_until(std::uint64_t step) const {
    if (step == 0) return {};
    const Place place = find(step);
    return place.before + Uint256(work_of(place.program));
}

Uint256 TaskPlan::most_work(const Entry& entry, std::uint64_t count) const {
    if (count == 0) return {};
    if (entry.count == 1) return Uint256(work_of(entry.program));
    // Steps in a row within a repeat are whole turns, wherever they begin, and fewer steps than a turn has.
    const Level& turn = levels_[entry.level];
    const std::uint64_t turns = count / turn.steps;
    if (turns >= entry.count) return turn.work * Uint256(entry.count);
    // Those end one turn and begin the next.
    const std::uint64_t rest = count % turn.steps;
    const Uint256 most = std::min(Uint256(rest) * Uint256(turn.largest), Uint256(2) * most_work(turn, rest));
    return turn.work * Uint256(turns) + std::min(turn.work, most);
}

Uint256 TaskPlan::most_work(const Level& level, std::uint64_t count) const {
    Uint256 parts;
    for (const Entry& entry : level.entries) parts += most_work(entry, count);
    return std::min(parts, Uint256(count) * Uint256(level.largest));
}

Uint256 TaskPlan::most_work(std::uint64_t count) const { return most_work(levels_.front(), count); }

Uint256 TaskPlan::work_of(const chain::market::Stretch& stretch, std::uint64_t stride) const {
    return work_until(stretch.last()) - work_until(stretch.before) +
           Uint256(chain::market::stride_count(stretch.steps, stride)) * Uint256(header().sizes.commit_work);
}

chain::market::PlannedWork TaskPlan::planned(std::uint64_t interval, std::uint64_t stride,
                                             std::uint64_t tranche) const {
    const Level& all = levels_.front();
    const std::uint64_t commit = header().sizes.commit_work;  // the same of all programs
    const auto commits = [&](std::uint64_t steps) {
        return Uint256(chain::market::stride_count(steps, stride)) * Uint256(commit);
    };
    const Uint256 total = all.work + commits(all.steps);
    const std::uint64_t longest = chain::market::tranche_steps(all.steps, tranche);
    std::uint64_t trace = 0;
    for (const PlanProgram& program : programs_)
        trace = std::max(trace, program.header.sizes.trace_bytes / vm::tensor::kTileBytes * vm::tensor::kTileHashWork);
    return {all.steps,
            interval,
            stride,
            all.largest,
            commit,
            most_work(interval) + commits(interval),
            total,
            tranche,
            longest == all.steps ? total : most_work(longest) + commits(longest),
            trace,
            header().sizes.state_bytes};
}

Expected<TaskPrograms> TaskPrograms::make(std::vector<vm::tensor::Program> programs, std::vector<PlanItem> body) {
    std::vector<PlanProgram> planned;
    planned.reserve(programs.size());
    for (const vm::tensor::Program& program : programs)
        planned.push_back({vm::tensor::program_root(program), program.header});
    QUERN_TRY(TaskPlan plan, TaskPlan::make(std::move(planned), std::move(body)));
    return TaskPrograms{std::move(plan), std::move(programs)};
}

}  // namespace quern::compute::core
