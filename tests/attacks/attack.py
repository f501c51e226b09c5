"""What an attack is, and the list of all of them."""
ATTACKS = []


class Attack:
    """One attempt to be paid for nothing, or to do harm, by real programs against real processes.

    name, what: as the table shows them. mallory: the attackers' accounts, name -> role of their bond (None: no bond).
    purse: whose money counts as the attackers', all of mallory by default. honest: who of the honest parties has a bond.
    money, bonds: QRN of accounts and bonds that have others than all. parameters, block: genesis parameters besides the
    tests'. validators: QRN of each node that votes; followers: nodes besides.
    known: why this one still pays, or costs its author too little (doc/market.md, "Known to be open")."""

    name = what = ""
    mallory, purse, honest, parameters, block, followers = {}, None, None, {}, {}, 0
    money, bonds, validators = {}, {}, (1000,)
    known = None
    listed = True  # False: runs when it is named, and is no row of the table

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if cls.name:
            ATTACKS.append(cls)

    def play(self, market):
        """Tries it, to the end of all tasks. Returns what caught it; raises market.Missed when nothing did."""
        raise NotImplementedError

    def fair(self, market):
        """What whoever does the same work honestly would have earned: the attack must bring less."""
        return 0
