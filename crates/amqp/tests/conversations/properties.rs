//! What holds for every conversation between two well-behaved ends.

use amqp::connection::{Config, LinkAcceptance, NewDelivery};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::conversations::operations;
use crate::pair::{Cut, Pair, Setup};

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn whatever_well_behaved_ends_do_everything_arrives_once_and_in_order(script in vec(any::<u8>(), 2..160)) {
        operations::run(&script);
    }

    #[test]
    fn a_message_arrives_whole_however_it_is_written_and_divided(
        // Each put as it is, or encoded where it goes, with some room said to be needed beyond it.
        parts in vec((vec(any::<u8>(), 0..700), proptest::option::of(0usize..100)), 0..8),
        tag in vec(any::<u8>(), 0..=32),
        format: u32,
        settled: bool,
        max_frame_size in 512u32..1_500,
        incoming_window in 1u32..6,
        cut in prop_oneof![Just(Cut::Nowhere), Just(Cut::Everywhere), (0usize..3_000).prop_map(Cut::ToServer)],
    ) {
        let setup = Setup {
            server: Config { max_frame_size, incoming_window, ..Config::default() },
            ..Setup::default()
        };
        let mut pair = Pair::new(&setup, cut);
        let (link, theirs) = pair.attach_sender(LinkAcceptance::default());
        pair.server.connection.set_credit(theirs, 2);
        pair.talk();
        for id in 0..2 {
            let delivery = NewDelivery { tag: &tag, format, settled };
            let mut sender = pair.client.connection.sender(link).expect("the link is there");
            let mut writer = sender.begin(&delivery).expect("there is credit");
            for (part, spare) in &parts {
                match spare {
                    None => writer.put(part),
                    Some(spare) => writer.put_encoded(part.len() + spare, |output| output.extend_from_slice(part)),
                }
            }
            prop_assert_eq!(writer.finish(), id);
            pair.talk();
            let arrived = pair.server.messages();
            prop_assert_eq!(arrived.len(), 1);
            let whole: Vec<u8> = parts.iter().flat_map(|(part, _)| part).copied().collect();
            prop_assert_eq!(&arrived[0].bytes, &whole);
            prop_assert_eq!((&arrived[0].tag, arrived[0].format, arrived[0].settled), (&tag, format, settled));
        }
    }
}
