Feature: Scoring reviews that were recorded elsewhere
  Somebody has an agent's reviews in a file and the reviews that people wrote of the same papers.

  Scenario: Every review is compared with what people wrote
    Given the papers of the example with their reviews
    And recorded reviews of 6 papers, one of them copied from a person
    When the recorded reviews are scored
    Then the command ends with 0
    And the copied review has the similarity 1
    And every other review has a lower similarity

  Scenario: A review is missing
    Given the papers of the example with their reviews
    And recorded reviews of 5 papers
    When the recorded reviews are scored
    Then the command ends with 3
    And 1 attempt is reported as missing
    And nothing missing was counted as a 0

  Scenario: The file was written for other papers
    Given the papers of the example with their reviews
    And a recorded review of a paper that is not among them
    When the recorded reviews are scored
    Then the command ends with 2
    And the message names the file, the line and the paper
    And no run is stored

  Scenario: Scoring again with other metrics asks nobody
    Given an agent that counts how often it is asked
    And the agent was run on 4 questions
    When the run is scored again with another metric
    Then the agent was asked 4 times
    And both runs are listed

  Scenario: People's own reviews are the ceiling
    Given the papers of the example with their reviews
    And recorded reviews of 6 papers, one of them copied from a person
    When people's reviews are scored against one another
    And the recorded reviews are scored
    Then the report shows what people reach beside the agent's scores
    And what people reach lies under the bar of success
