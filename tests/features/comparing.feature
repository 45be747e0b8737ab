Feature: Comparing an agent with the one before it
  A change is an improvement, a regression, or not to be told from chance; what is likely is said apart from what is proven.

  Scenario: A prompt that makes everything worse
    Given an agent that was right on 30 of 40 questions
    When it is changed so that it is right on 10 of them
    Then the comparison ends with 1
    And it says fail
    And it names a question that was right before and is wrong now

  Scenario: Nothing changed at all
    Given an agent that was right on 30 of 40 questions
    When it is run again and says the same
    Then the comparison ends with 0
    And it says pass

  Scenario: A change too small to tell from chance
    Given an agent that was right on 30 of 40 questions
    When it is changed so that it is right on 29 of them
    Then the comparison ends with 0
    And it says pass
    And it says that nothing is proven
    And it says how many more questions would settle it

  Scenario: A change that can only have helped
    Given an agent that was right on 10 of 40 questions
    When it is changed so that it is right on 30 of them
    Then the comparison ends with 0
    And it says pass
    And every question that moved was wrong before and is right now

  Scenario Outline: A team that wants proof
    Given an agent that was right on 30 of 40 questions
    And the policy is <policy>
    When it is changed so that it is right on 29 of them
    Then the comparison ends with <code>

    Examples:
      | policy | code |
      | proof  | 4    |
      | strict | 1    |

  Scenario: Questions that were rewritten meanwhile
    Given an agent that was right on 30 of 40 questions
    When it is asked other questions under the same names
    Then the comparison ends with 2
    And it says that the questions have changed

  Scenario: Questions about a few documents say less than as many about different ones
    Given an agent that was right on 30 of 40 questions
    And the questions are about 5 documents
    When it is changed so that it is right on 10 of them
    Then its interval is wider than if every question were its own document
