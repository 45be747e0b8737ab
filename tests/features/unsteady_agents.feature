Feature: Agents that do not always answer
  Agents fail, hang and are cut short; what they did is kept, and what they did not do is said.

  Scenario: An agent that fails now and then
    Given an agent that fails on every third question
    When it is run on 6 questions
    Then the command ends with 3
    And 2 attempts are reported as failed, each with its reason
    And the failed ones count as 0 in the pass rate
    And their other scores are left out and counted as skipped

  Scenario: An agent that never comes back
    Given an agent that hangs on one question
    When it is run on 3 questions with a limit of 1 seconds
    Then the command ends with 3
    And the attempt that hung says that no answer came within 1 s
    And the other 2 attempts passed

  Scenario: A run that is cut short
    Given an agent that counts how often it is asked
    And a run of it on 5 questions that was cut short after 2
    When the run is resumed
    Then the command ends with 0
    And each question was answered once
    And the run has 5 attempts

  Scenario: An agent of several repeats that is right half of the time
    Given an agent that is right on every other attempt
    When it is run on 4 questions with 2 repeats
    Then pass@2 is 1 and pass^2 is 0

  Scenario: An agent that prints what it likes
    Given an agent that prints as it works
    When it is run on 3 questions and JSON is asked for
    Then standard output is one JSON document
