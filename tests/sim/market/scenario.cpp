#include "sim/market/scenario.h"

#include <algorithm>
#include <cmath>

#include "sim/market/formulas.h"
#include "sim/market/money.h"

namespace quern::sim::market {
namespace {

// What accounts have bonded, in rewards of a task at the cap: enough for all tasks at once.
constexpr double kSolverBond = 20;
constexpr double kVerifierBond = 40;
constexpr double kWatcherBond = 10;
constexpr std::size_t kSolvers = 6;
constexpr std::size_t kVerifiers = 9;
constexpr std::size_t kWatchers = 12;
constexpr std::size_t kCoalition = 9;
constexpr double kSigmas = 3;

double reward(const Settings& settings) { return std::max(3.0, static_cast<double>(settings.reward_qrn)); }
double share(const Settings& settings) { return static_cast<double>(settings.share_percent) / 100; }

Group submitters() {
    Group group{"submitters", 2};
    group.submits = true;
    return group;
}
Group solvers(const Settings& settings, std::size_t accounts = kSolvers, const std::string& name = "solvers") {
    Group group{name, accounts};
    group.solver = kSolverBond * reward(settings) * static_cast<double>(accounts);
    return group;
}
Group verifiers(const Settings& settings, std::size_t accounts = kVerifiers, const std::string& name = "verifiers") {
    Group group{name, accounts};
    group.verifier = kVerifierBond * reward(settings) * static_cast<double>(accounts);
    return group;
}
Group watchers(const Settings& settings, std::size_t accounts = kWatchers) {
    Group group{"watchers", accounts};
    group.whistleblower = kWatcherBond * reward(settings) * static_cast<double>(accounts);
    group.strategy.watch_percent = settings.watch_percent;
    group.strategy.retrain_percent = settings.retrain_percent;
    group.strategy.doubt_percent = settings.doubt_percent;
    return group;
}
// One purse with a part of each role's bonds; everybody else has the rest.
std::vector<Group> with_coalition(const Settings& settings, const Strategy& strategy, double part) {
    Group coalition{"coalition", kCoalition, strategy};
    coalition.colludes = true;
    const double size = reward(settings) * static_cast<double>(kCoalition);
    coalition.solver = kSolverBond * size;
    coalition.verifier = kVerifierBond * size;
    coalition.whistleblower = kWatcherBond * size;
    const double others = (1 - part) / part;
    auto solving = solvers(settings);
    auto verifying = verifiers(settings, 2 * kVerifiers);
    auto watching = watchers(settings);
    solving.solver = coalition.solver * others;
    verifying.verifier = coalition.verifier * others;
    watching.whistleblower = coalition.whistleblower * others;
    return {submitters(), solving, verifying, watching, coalition};
}

RunSpec spec(std::string name, const Settings& settings, std::vector<Group> groups) {
    return {std::move(name), settings, std::move(groups)};
}

std::string number(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.3f", value);
    return text;
}
Finding expect(bool holds, std::string text) {
    return {holds ? Finding::Kind::holds : Finding::Kind::fails, std::move(text)};
}
Finding known(bool pays, std::string text) {
    return {pays ? Finding::Kind::pays : Finding::Kind::pays_not, std::move(text)};
}
Finding less(double a, const std::string& of_a, double b, const std::string& of_b) {
    return expect(a < b, of_a + " " + number(a) + " < " + of_b + " " + number(b));
}
double each(double all, std::uint64_t count) { return count == 0 ? 0 : all / static_cast<double>(count); }
double per_report(const Ledger& ledger) { return each(ledger.profit(), ledger.reports); }
double per_task(const Ledger& ledger) { return each(ledger.profit(), ledger.assigned); }
double lost(const Ledger& ledger) { return to_qrn(sum(ledger.slashed)); }
double received(const Ledger& ledger, const std::string& reason) {
    const auto found = ledger.received.find(reason);
    return found == ledger.received.end() ? 0 : to_qrn(found->second);
}
// Jackpots are rare and large: what is not about them leaves them out.
double without_jackpots(const Ledger& ledger) { return ledger.profit() - received(ledger, "jackpot"); }

// --- Everybody honest ------------------------------------------------------------------------------------------------

void often_forced(Settings& settings) { settings.chain.market.forced_error_inverse = 4; }

std::vector<RunSpec> honest_runs(const Settings& settings) {
    return {spec("honest", settings, {submitters(), solvers(settings), verifiers(settings), watchers(settings)})};
}
Findings judge_honest(const std::vector<RunResult>& runs, const Settings& settings) {
    const auto& run = runs[0];
    Findings findings;
    for (const char* name : {"solvers", "verifiers", "watchers"}) {
        findings.push_back(
            expect(run.of(name).profit() > 0,
                   std::string(name) + " earn " + number(run.of(name).profit()) + " beyond their costs"));
        findings.push_back(expect(sum(run.of(name).slashed).is_zero(), std::string(name) + " lose nothing"));
    }
    findings.push_back(expect(run.of("solvers").settled == settings.tasks, "each task is settled once"));
    return findings;
}

// --- Verifiers that do not look --------------------------------------------------------------------------------------

std::vector<RunSpec> idle_runs(const Settings& settings, Verifying verifying, const std::string& name) {
    auto idle = verifiers(settings, kVerifiers / 3, name);
    idle.strategy.verifying = verifying;
    return {spec(
        name, settings,
        {submitters(), solvers(settings), verifiers(settings, kVerifiers - kVerifiers / 3), idle, watchers(settings)})};
}
std::vector<RunSpec> lazy_runs(const Settings& settings) { return idle_runs(settings, Verifying::passes, "lazy"); }
std::vector<RunSpec> copying_runs(const Settings& settings) {
    return idle_runs(settings, Verifying::copies, "copying");
}
Findings judge_idle(const std::vector<RunResult>& runs, const Settings&) {
    const auto& run = runs[0];
    const auto& idle = run.of(run.name);
    return {less(per_report(idle), "a report of a " + run.name + " verifier earns", per_report(run.of("verifiers")),
                 "an honest one"),
            expect(sum(run.of("verifiers").slashed).is_zero(), "honest verifiers lose nothing"),
            expect(run.of("solvers").profit() > 0, "honest solvers earn " + number(run.of("solvers").profit()))};
}
void never_forced(Settings& settings) { settings.chain.market.forced_error_inverse = 0; }
Findings judge_unwatched(const std::vector<RunResult>& runs, const Settings&) {
    const auto& run = runs[0];
    return {less(per_report(run.of("verifiers")), "what forced errors are for: without them an honest report earns",
                 per_report(run.of("lazy")), "a lazy one")};
}

// --- Solvers that make up segments -----------------------------------------------------------------------------------

void many_samples(Settings& settings) {
    settings.segments = 100;
    settings.samples = 20;
}
std::vector<RunSpec> cheating_runs(const Settings& settings) {
    auto cheats = solvers(settings, kSolvers / 2, "cheats");
    cheats.strategy.faked_per_mille = settings.faked_per_mille;
    return {spec("cheating", settings,
                 {submitters(), solvers(settings, kSolvers / 2), cheats, verifiers(settings), watchers(settings)})};
}
Findings judge_cheating(const std::vector<RunResult>& runs, const Settings& settings) {
    const auto& run = runs[0];
    const auto& cheats = run.of("cheats");
    const std::uint64_t faked = std::max<std::uint64_t>(1, settings.segments * settings.faked_per_mille / 1000);
    const double missed = 1 - detection(settings.segments, faked, settings.samples, settings.verifiers);
    const auto lies = static_cast<double>(cheats.lies);
    const double most = missed * lies + kSigmas * std::sqrt(missed * (1 - missed) * lies) + 1;
    return {less(per_task(cheats), "a task of a cheating solver earns", per_task(run.of("solvers")), "an honest one"),
            expect(static_cast<double>(cheats.paid_lies) <= most,
                   std::to_string(cheats.lies) + " histories with " + std::to_string(faked) + " of " +
                       std::to_string(settings.segments) + " segments made up, " + std::to_string(cheats.paid_lies) +
                       " paid; the formula says " + number(missed * lies)),
            expect(run.of("verifiers").profit() > 0, "verifiers earn " + number(run.of("verifiers").profit())),
            expect(sum(run.of("verifiers").slashed).is_zero(), "and lose nothing")};
}

// --- Coalitions ------------------------------------------------------------------------------------------------------

std::vector<RunSpec> coalition_runs(const Settings& settings) {
    Strategy honest;
    honest.watch_percent = 0;
    Strategy lies = honest;
    lies.faked_per_mille = settings.faked_per_mille;
    lies.passes_friends = true;
    Strategy concedes = lies;
    concedes.concedes_to_friend = true;
    return {spec("is honest", settings, with_coalition(settings, honest, share(settings))),
            spec("lies, friends pass", settings, with_coalition(settings, lies, share(settings))),
            spec("and concedes to a friend", settings, with_coalition(settings, concedes, share(settings)))};
}
Findings judge_coalition(const std::vector<RunResult>& runs, const Settings& settings) {
    Findings findings;
    const double honest = without_jackpots(runs[0].of("coalition"));
    for (std::size_t i = 1; i < runs.size(); ++i) {
        const auto& lying = runs[i].of("coalition");
        findings.push_back(less(lying.profit(),
                                "a coalition with " + std::to_string(settings.share_percent) + " % of the bonds that " +
                                    runs[i].name + " earns",
                                honest, "honestly"));
        findings.push_back(
            expect(runs[i].of("verifiers").profit() > 0 && sum(runs[i].of("verifiers").slashed).is_zero(),
                   "strangers among the verifiers earn and lose nothing"));
    }
    return findings;
}

void thin_margins(Settings& settings) {
    often_forced(settings);
    settings.cost_percent = 75;
    settings.tasks = 64;  // with half as many some seeds have no draw that is doubted
}
std::vector<RunSpec> withholding_runs(const Settings& settings) {
    Strategy honest;
    honest.watch_percent = 0;
    Strategy hides = honest;
    hides.faked_per_mille = 1000;
    hides.passes_friends = true;
    hides.withholds_data = true;
    Settings doubted = settings;
    doubted.doubt_percent = settings.doubt_percent == 0 ? 10 : settings.doubt_percent;
    return {spec("is honest", settings, with_coalition(settings, honest, share(settings))),
            spec("invents all, serves friends only", settings, with_coalition(settings, hides, share(settings))),
            spec("does so where whistleblowers train again what they cannot get", doubted,
                 with_coalition(doubted, hides, share(settings)))};
}
Findings judge_withholding(const std::vector<RunResult>& runs, const Settings& settings) {
    const double honest = without_jackpots(runs[0].of("coalition"));
    const auto text = [&](const RunResult& run) {
        const auto& coalition = run.of("coalition");
        return "a coalition with " + std::to_string(settings.share_percent) + " % of the bonds that " + run.name +
               " earns " + number(without_jackpots(coalition)) + ", honestly " + number(honest) + " (" +
               std::to_string(coalition.paid_lies) + " of " + std::to_string(coalition.lies) + " inventions paid)";
    };
    const double unseen = without_jackpots(runs[1].of("coalition"));
    const double seen = without_jackpots(runs[2].of("coalition"));
    // Where nobody has trained anything again the others say nothing of it.
    const auto accused = runs[2].of("watchers").accusations;
    Findings findings{known(unseen > honest, text(runs[1])), expect(seen < honest, text(runs[2])),
                      expect(accused > 0, "histories trained again and accused: " + std::to_string(accused))};
    if (settings.doubt_percent == 0 && settings.retrain_percent == 0)  // else they do so in the second run, too
        findings.push_back(less(seen, "which leaves it", unseen, "what it earns without"));
    return findings;
}

// --- One purse or many -----------------------------------------------------------------------------------------------

// Each report is forced, so that little is left to chance.
void many_tasks(Settings& settings) {
    settings.tasks = 48;
    settings.at_once = 8;
    settings.chain.market.forced_error_inverse = 1;
}
// A third of the verifiers' and of the whistleblowers' bonds, in so many parts.
std::vector<Group> with_purse(const Settings& settings, std::size_t parts) {
    Group purse{"purse", parts};
    purse.colludes = true;
    const double others = (1 - share(settings)) / share(settings);
    auto verifying = verifiers(settings, 2 * kVerifiers);
    auto watching = watchers(settings, 2 * kWatchers);
    purse.verifier = verifying.verifier / others;
    purse.whistleblower = watching.whistleblower / others;
    return {submitters(), solvers(settings), verifying, watching, purse};
}
std::vector<RunSpec> sybil_runs(const Settings& settings) {
    return {spec("in one bond", settings, with_purse(settings, 1)),
            spec("in nine bonds", settings, with_purse(settings, kVerifiers))};
}
Findings judge_sybil(const std::vector<RunResult>& runs, const Settings& settings) {
    const auto& one = runs[0].of("purse");
    const auto& many = runs[1].of("purse");
    const auto draws = static_cast<double>(runs[1].reports);
    const double fair = draws * share(settings);
    const double noise = kSigmas * std::sqrt(fair * (1 - share(settings)));
    return {
        expect(static_cast<double>(many.reports) <= fair + noise,
               "split in nine it has " + std::to_string(many.reports) + " of " + std::to_string(runs[1].reports) +
                   " seats, its share is " + number(fair)),
        expect(static_cast<double>(one.reports) <= fair + noise, "in one piece it has " + std::to_string(one.reports)),
        less(received(many, "jackpot"), "jackpots of its nine watchers", received(one, "jackpot") * 1.2 + 1,
             "a fifth more than those of one")};
}

// --- Tasks for the jackpots' sake ------------------------------------------------------------------------------------

std::vector<RunSpec> mill_runs(const Settings& settings) {
    Strategy tells;
    tells.tells_friends = true;
    auto groups = with_coalition(settings, tells, share(settings));
    groups.back().submits = true;
    return {spec("mill", settings, groups)};
}
void mill_numbers(Settings& settings) {
    settings.chain.market.forced_error_inverse = 4;
    settings.tasks = 48;
}
Findings judge_mill(const std::vector<RunResult>& runs, const Settings&) {
    const auto& mill = runs[0].of("coalition");
    const double paid = static_cast<double>(mill.submitted) * to_qrn(runs[0].tax);
    return {less(received(mill, "jackpot"), "a purse that submits, verifies and watches has jackpots of", paid,
                 "than the tax that it pays,"),
            expect(mill.profit() < 0, "and gains nothing: " + number(mill.profit()))};
}

// --- Harm ------------------------------------------------------------------------------------------------------------

std::vector<RunSpec> griefing_runs(const Settings& settings) {
    std::vector<RunSpec> runs;
    const auto add = [&](const std::string& name, Strategy strategy) {
        strategy.watch_percent = 0;
        auto groups = with_coalition(settings, strategy, share(settings));
        groups.back().solver = 0;  // it only harms
        groups.back().name = "griefer";
        runs.push_back(spec(name, settings, groups));
    };
    add("honest", {});
    Strategy strategy;
    strategy.verifying = Verifying::fails;
    add("false FAILs", strategy);
    strategy.verifying = Verifying::withholds;
    add("withheld reveals", strategy);
    strategy.verifying = Verifying::misses;
    add("\"data missing\"", strategy);
    strategy = {};
    strategy.straw_percent = 100;
    add("false accusations", strategy);
    strategy.stalls = true;
    add("the same, to the last second", strategy);
    strategy.stalls = false;
    strategy.fights = true;
    add("the same, to the last move", strategy);
    return runs;
}
Findings judge_griefing(const std::vector<RunResult>& runs, const Settings&) {
    Findings findings;
    const auto& honest = runs[0];
    for (std::size_t i = 1; i < runs.size(); ++i) {
        const double own = without_jackpots(honest.of("griefer")) - without_jackpots(runs[i].of("griefer"));
        // What they lose by slashes, pay for gas, and train again.
        double harm = std::max(0.0, to_qrn(runs[i].of("solvers").cost) - to_qrn(honest.of("solvers").cost));
        for (const char* name : {"solvers", "verifiers", "watchers"})
            harm += lost(runs[i].of(name)) - lost(honest.of(name)) + to_qrn(runs[i].of(name).gas) -
                    to_qrn(honest.of(name).gas);
        const std::string text = runs[i].name + " cost the griefer " + number(own) + " and others " + number(harm);
        if (runs[i].name == "\"data missing\"")
            findings.push_back(known(harm > own, text));
        else
            findings.push_back(expect(own > 0 && harm < own, text));
    }
    return findings;
}

// --- At random -------------------------------------------------------------------------------------------------------

std::vector<RunSpec> irrational_runs(const Settings& settings) {
    Strategy random;
    random.verifying = Verifying::by_lot;
    random.straw_percent = 10;
    random.watch_percent = 50;
    random.faked_per_mille = 10;
    random.lies_percent = 50;
    auto groups = with_coalition(settings, random, share(settings));
    groups.back().name = "irrational";
    return {spec("irrational", settings, groups)};
}
Findings judge_irrational(const std::vector<RunResult>& runs, const Settings&) {
    const auto& run = runs[0];
    Findings findings;
    for (const char* name : {"solvers", "verifiers", "watchers"}) {
        double slashed = lost(run.of(name));
        const auto missing = run.of(name).slashed.find("data_missing");
        if (missing != run.of(name).slashed.end()) slashed -= to_qrn(missing->second);
        findings.push_back(expect(slashed == 0, std::string("honest ") + name + " lose no bond by a rule"));
    }
    for (const char* name : {"solvers", "verifiers"})
        findings.push_back(expect(run.of(name).profit() > 0,
                                  std::string("honest ") + name + " earn " + number(run.of(name).profit())));
    findings.push_back(expect(run.of("irrational").profit() < 0,
                              "who acts at random earns less than nothing: " + number(run.of("irrational").profit())));
    return findings;
}

// --- What verification costs -----------------------------------------------------------------------------------------

void many_segments(Settings& settings) {
    settings.segments = 1200;
    settings.interval = 1;
    settings.samples = 20;
    settings.tasks = 2;
    settings.at_once = 2;
    settings.tax_percent = 100;
}
Findings judge_costs(const std::vector<RunResult>& runs, const Settings& settings) {
    const auto& run = runs[0];
    const auto n = static_cast<double>(settings.segments);
    const double trained = to_qrn(run.of("solvers").cost);
    const double verified = to_qrn(run.of("verifiers").cost);
    const double fees = received(run.of("verifiers"), "verifier_fee") /
                        (to_qrn(run.reward) * static_cast<double>(run.of("solvers").settled));
    double gas = 0;
    for (const auto& ledger : run.purses) gas += to_qrn(ledger.gas);
    const auto faked = static_cast<std::uint64_t>(n / 20);
    const double found = detection(settings.segments, faked, settings.samples, settings.verifiers);
    return {expect(verified <= 0.06 * trained,
                   "verifiers compute " + number(100 * verified / trained) + " % of what solvers compute"),
            expect(fees <= 0.06 + 1e-9, "their fees are " + number(100 * fees) + " % of the price of the training"),
            expect(found >= 0.95, "5 % of made-up segments are found with p = " + number(found)),
            expect(gas < 0.06 * trained, "gas is " + number(100 * gas / trained) + " % of the cost of training")};
}

void nothing(Settings&) {}

}  // namespace

const std::vector<Scenario>& scenarios() {
    static const std::vector<Scenario> all = {
        {"honest", "everybody does what it is there for", often_forced, honest_runs, judge_honest},
        {"costs", "1,200 segments, 3 verifiers with 20 samples: what verification costs", many_segments, honest_runs,
         judge_costs},
        {"lazy", "a third of the verifiers passes without looking", nothing, lazy_runs, judge_idle},
        {"lazy_unwatched", "the same without forced errors, so that nobody watches", never_forced, lazy_runs,
         judge_unwatched},
        {"copying", "a third of the verifiers copies what is public", nothing, copying_runs, judge_idle},
        {"cheating", "half of the solvers make up segments", many_samples, cheating_runs, judge_cheating},
        {"coalition", "one purse with a part of all bonds lies, passes itself, falls to a friend", often_forced,
         coalition_runs, judge_coalition},
        {"withholding", "the same invents everything and serves its own verifiers only", thin_margins, withholding_runs,
         judge_withholding},
        {"sybil", "a third of the bonds in one account or in nine", many_tasks, sybil_runs, judge_sybil},
        {"mill", "one purse submits, verifies and watches for the jackpots", mill_numbers, mill_runs, judge_mill},
        {"griefing", "a third of the bonds does harm", often_forced, griefing_runs, judge_griefing},
        {"irrational", "a third of the bonds acts at random", often_forced, irrational_runs, judge_irrational},
    };
    return all;
}

const Scenario* find_scenario(std::string_view name) {
    for (const auto& scenario : scenarios())
        if (scenario.name == name) return &scenario;
    return nullptr;
}

bool Outcome::passed() const {
    return std::none_of(findings.begin(), findings.end(),
                        [](const Finding& each) { return each.kind == Finding::Kind::fails; });
}

Outcome play(const Scenario& scenario, const Settings& settings) {
    Outcome outcome;
    for (const auto& each : scenario.runs(settings)) {
        outcome.runs.push_back(run(each));
        for (const auto& fault : outcome.runs.back().faults)
            outcome.findings.push_back({Finding::Kind::fails, each.name + ": " + fault});
    }
    const auto judged = scenario.judge(outcome.runs, settings);
    outcome.findings.insert(outcome.findings.end(), judged.begin(), judged.end());
    return outcome;
}

}  // namespace quern::sim::market
