"""Violations of the rules of test_architecture.py, each of which its rule must see: rule | module | source,
whose further lines are indented.
"""

from __future__ import annotations

import re

PLANTED = [
    tuple(item.split(" | ", 2))
    for item in re.split(
        r"\n(?! )",
        """
no_way_round | sessions.statistic.grid | def f(run, domain, t): return run.session.encode(domain, t)
no_way_round | sessions.statistic.grid | def f(rows): return ColumnValues(rows, 3).value(('rank', 1))
no_way_round | sessions.statistic.grid | def f(s, v): return s.noise.spread(v, 1.0)
one_draw | privacy.other.smooth | def measure_smooth(session, sealed, what, noise):
    charge = Charge('measure', kind, subject, noise.multiplier, beta, delta)
    contents = session._unseal(sealed, charge)
    return session.noise.spread(contents.value(what), 1.0, scale=noise.multiplier / 2)
log_is_quiet | ledger.run | log.warning('spent')
log_is_quiet | pipeline.release | logging.basicConfig(level=10)
log_is_quiet | ledger.run | log.addHandler(logging.StreamHandler())
one_door | mechanisms.mwem | n = counts.reveal().marginal(())
one_door | privacy.session | def select(counts): return counts.reveal()
one_door | pipeline.record.manifest | def f(counts): return getattr(counts, 'reveal')()
one_door | pipeline.release | def f(counts): return counts._contents.codes
one_door | privacy.counts | class PrivateRows(Sealed):
    def first(self):
        return self._contents.codes[0][0]
one_door | mechanisms.tree | def f(rows): return rows._contents
one_door | mechanisms.tree | def f(rows): return rows.reveal().marginal((0,))
one_door | mechanisms.mwem | def peek(session, counts, charge): return session._unseal(counts, charge)
one_door | model.estimation | def f(session): return session.noise.add([1], scale=1.0)
charges_first | privacy.session | class Session:
    def _unseal(self, sealed, charge):
        return sealed.reveal()
charges_first | privacy.session | class Session:
    def _unseal(self, sealed, charge):
        found = sealed.reveal()
        self.accountant.charge(charge)
        return found
charges_first | privacy.session | class Session:
    def _unseal_again(self, sealed, test):
        return sealed.reveal()
charges_first | privacy.session | class Session:
    def begin(self, sensitivity):
        begun = self.noise.begin(scale=scale)
        self.accountant.charge(charge)
        return SparseVector(charge, sensitivity, begun)
one_door | privacy.session | def f(session, s, t): return session._unseal_again(s, t)
one_door | privacy.counts | peek = lambda rows: rows._contents.codes
one_door | privacy.counts | if True:
    def peek(rows):
        return rows._contents.codes
one_door | mechanisms.tree | def f(session, s, c):
    open = session._unseal
    return open(s, c)
no_way_round | mechanisms.tree | def f(session):
    s = session
    return s.noise.add([1], scale=1.0)
no_way_round | mechanisms.tree | def f(session): return getattr(session, '_unse' + 'al')
no_way_round | mechanisms.tree | def f(session): return session.rows.__getstate__()
no_way_round | mechanisms.tree | def f(session, n): return replace(session, noise=n)
no_way_round | mechanisms.tree | def f(session): return session.rows.public_total(Unit())
no_way_round | mechanisms.tree | def f(session): session.accountant.spent = 0
no_way_round | mechanisms.tree | def f(s): return Session(Accountant(b), s.unit, s.noise)
no_way_round | mechanisms.tree | def f(plan): return list(plan.request.private.batches(['a']))
no_way_round | mechanisms.tree | def f(plan, table): return encode_table(plan.domain, table)
no_way_round | pipeline.record.describe | def f(scope): return scope.bounded()
no_way_round | mechanisms.tree | def f(session, plan): return session.encode(plan.domain, t)
no_way_round | mechanisms.tree | def f(c): return OpenDPNoise(c)
no_way_round | sessions.graph.release | def f(t, v, c): return read_edges(t, v, c)
no_way_round | sessions.graph.spectral | def f(v, pairs): return Edges(v, pairs).exact(AllEdges.PAIRS)
one_door | sessions.graph.release | def f(edges): return edges._contents
one_draw | privacy.session | class Session:
    def measure(self, sealed, what, cost):
        c = self._unseal(sealed, Charge('measure', m, (), scale, s))
        return self.noise.add(c.exact(what), scale=scale / 2)
one_draw | privacy.session | class Session:
    def measure(self, sealed, what, cost):
        c = self._unseal(sealed, Charge('measure', m, (), scale, s))
        return c.exact(what)
one_draw | privacy.session | class Session:
    def measure(self, sealed, what, cost):
        c = self._unseal(sealed, Charge('measure', m, (), scale, s))
        return [self.noise.add(c.exact(what), scale=scale) for _ in range(9)]
one_draw | privacy.session | class Session:
    def measure(self, sealed, what, cost):
        c = self._unseal(sealed, Charge('measure', m, (), scale, s))
        print(c.answers)
        return self.noise.add(c.exact(what), scale=scale)
sealed_at_once | privacy.discover | def discover(session, table, columns, share):
    found = profile(table, names)
    return found
sealed_at_once | privacy.popular | def popular_together(session, table, found, cost, delta):
    rests = table.weighed(known)
    return found
no_way_round | mechanisms.learn | def f(table): return weighed(table, known)
one_door | privacy.discover | def discover(session, table, columns):
    if profiles[n].reveal().votes()[0]:
        return 1
sealed_at_once | mechanisms.learn | def learn(session, table, columns, policy):
    for row in table.read(columns):
        pass
one_door | privacy.counts | class PrivateRows(Sealed):
    def recode(self, domain, codes):
        return self._contents.codes
sealed_at_once | sessions.online.asking | def asked(request, session):
    rows = request.bounded()
    print(rows)
no_way_round | sessions.online.mechanism | def f(session, plan): return session.encode(d, t)
one_door | sessions.online.mechanism | def f(s): return s.sealed.reveal().exact(0)
sealed_at_once | sessions.sketch.build | def make_sketch(request, run):
    source = request.private
    print(source.profile(['a']))
sealed_at_once | privacy.other.projected | class PrivateProjection:
    def of(cls, table, column):
        found = table.profile([column])
        return cls(found)
no_way_round | sessions.sketch.released | def f(p): return Projected(p).exact(())
no_way_round | mechanisms.learn | def f(table): return profile(table, ['a'])
no_way_round | mechanisms.tree | def f(session, d): return session.recode(d, {})
no_way_round | mechanisms.rounds | def f(s): return s.paid_by(s.accountant.whole)
one_draw | privacy.discover | class ColumnDiscovery:
    def histogram(self, edges, scale):
        column = session._unseal(self.sealed, Charge('discover', m, (), scale, s))
        return column.histogram(edges), session.noise.add(column.votes(), scale=scale / 2)
no_seed | privacy.noise | def add(values, *, seed=None): ...
no_seed | privacy.discover | x = np.random.default_rng(0)
no_seed | mechanisms.mwem | x = np.random.random(3)
no_seed | pipeline.sampling | rng = np.random.default_rng()
one_door | privacy.counts | class PrivateRows(Sealed):
    def first(self) -> PrivateRows:
        return self._contents
no_way_round | sessions.online.mechanism | def f(rows): return CutCounts(rows).exact(0)
sealed_at_once | privacy.counts | def f(cls, domain, table):
    codes = table.encoded(domain)
    return cls(codes)
""".strip(),
    )
]
