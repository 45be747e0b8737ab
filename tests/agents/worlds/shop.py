"""Factories of worlds that the tests name by path."""

import threading


class Shop:
    """A shop whose state is its attributes and whose tools are its methods."""

    def __init__(self) -> None:
        self.orders = {str(n): {"status": "delivered"} for n in range(3)}
        self._secret = object()

    def refund(self, order: str) -> str:
        self.orders[order]["status"] = "refunded"
        return "done"

    def status(self, order: str) -> str:
        return self.orders[order]["status"]


def move(tickets: dict, ticket: str, to: str) -> None:
    tickets[ticket] = to


TOOLS = [move]
NO_TOOLS = 3


def all_refunded(state, case):
    wrong = [key for key, order in state.orders.items() if order["status"] != "refunded"]
    return f"order {', '.join(wrong)} is not refunded for {case.id}" if wrong else True


def raises(state, case):
    raise KeyError("no such key")


def asserts(state, case):
    assert not state.orders, "there are orders"


def returns_none(state, case):
    return None


def hangs():
    threading.Event().wait(5)


def first_refunded(state, case):
    return state.orders["0"]["status"] == "refunded"


def seat(connection, guest):
    connection.execute("UPDATE seats SET guest = ? WHERE letter = 'A'", (guest,))


GUESTS = [seat]
