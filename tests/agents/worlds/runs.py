"""Runs of agents in worlds, and what the tests look at in them."""

import trivium as tv


def run(cases, agent, *, store, **settings):
    return tv.evaluate(cases, agent=agent, store=store, **settings)


def case(number=0, **expect):
    return {"id": str(number), "input": str(number), "expect": expect}


def scores(run, name="state_match"):
    return [evaluation.scores[name] for evaluation in run.evaluations()]


def attempts(run):
    return list(run.attempts())


def refund(message, world):
    world.refund(message)
    return "done"
