package parshall.peer;

/**
 * What is said of each call.
 *
 * @param lines where it is said
 */
record Answers(Lines lines) {

    void sent(String number) {
        lines.say("sent " + number);
    }

    void failed(String number, Throwable error) {
        lines.say("failed " + number + " " + Lines.withCauses(error));
    }
}
