"""The official client of Service Bus: topics, subscriptions and their filters."""

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue

from queues import SILENCE_S, receive, texts


def test_each_subscription_gets_what_its_rules_let_through(queues):
    with queues.client() as client:
        with client.get_topic_sender("news") as sender:
            for body, subject, properties in [
                ("small red", "plain", {"color": "red", "size": 1}),
                ("large red", "urgent", {"color": "red", "size": 7}),
                ("large blue", "urgent", {"color": "blue", "size": 7}),
                ("bare", None, {}),
            ]:
                sender.send_messages(ServiceBusMessage(body, subject=subject, application_properties=properties))
        for subscription, expected in [
            ("all", ["small red", "large red", "large blue", "bare"]),
            ("red", ["large red"]),
            ("urgent", ["large red", "large blue"]),
        ]:
            with client.get_subscription_receiver("news", subscription) as receiver:
                messages = receive(receiver, len(expected))
                assert texts(messages) == expected
                for message in messages[1:]:
                    receiver.complete_message(message)
                receiver.dead_letter_message(messages[0], reason="seen")
            sub_queue = ServiceBusSubQueue.DEAD_LETTER
            with client.get_subscription_receiver("news", subscription, sub_queue=sub_queue) as receiver:
                [message] = receive(receiver)
                assert message.dead_letter_reason == "seen"
                receiver.complete_message(message)
        with client.get_subscription_receiver("news", "none") as receiver:
            assert receiver.receive_messages(max_wait_time=SILENCE_S) == []
