import httpx
import pytest

from tablebell_sandbox.channel import Channel
from tablebell_sandbox.testing import RunningSandbox, running_sandbox

PATH = "/2010-04-01/Accounts/AC123/Messages.json"
FORM = {"To": "+393331234567", "From": "+15005550006", "Body": "Nuova prenotazione, è per 4"}
LOGIN = ("AC123", "secret")


async def test_a_text_is_accepted_with_twilios_response(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    response = await http.post(sandbox.sms_url + PATH, data=FORM, auth=LOGIN)

    assert response.status_code == 201
    answer = response.json()
    assert answer["sid"].startswith("SM")
    assert len(answer["sid"]) == 34
    assert answer["uri"] == f"/2010-04-01/Accounts/AC123/Messages/{answer['sid']}.json"
    expected = {"status": "queued", "to": FORM["To"], "from": FORM["From"], "body": FORM["Body"], "error_code": None}
    assert answer.items() >= expected.items()
    (message,) = sandbox.messages(Channel.SMS)
    assert (message.to, message.sender, message.text) == ([FORM["To"]], FORM["From"], FORM["Body"])
    assert (message.message_id, message.raw) == (answer["sid"], FORM)


async def test_a_messaging_service_may_replace_the_sender(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    form = {"To": FORM["To"], "MessagingServiceSid": "MG1", "Body": "ciao"}
    response = await http.post(sandbox.sms_url + PATH, data=form, auth=LOGIN)

    assert response.json()["messaging_service_sid"] == "MG1"
    assert sandbox.messages()[0].sender == "MG1"


async def test_the_password_is_shown_nowhere(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    await http.post(sandbox.sms_url + PATH, data=FORM, auth=LOGIN)

    assert sandbox.messages()[0].headers["authorization"] == "Basic (hidden)"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"To": "12345"}, 21211),
        ({"To": "+39 333 abc"}, 21211),
        ({"To": ""}, 21604),
        ({"From": ""}, 21603),
        ({"Body": ""}, 21602),
        ({"Body": "x" * 1601}, 21617),
    ],
)
async def test_a_wrong_form_gets_twilios_error(
    sandbox: RunningSandbox, http: httpx.AsyncClient, change: dict[str, str], code: int
) -> None:
    response = await http.post(sandbox.sms_url + PATH, data=FORM | change, auth=LOGIN)

    assert response.status_code == 400
    error = response.json()
    assert set(error) == {"code", "message", "more_info", "status"}
    assert (error["code"], error["status"]) == (code, 400)
    assert error["more_info"] == f"https://www.twilio.com/docs/errors/{code}"
    assert (sandbox.messages(), sandbox.count(Channel.SMS).refused) == ([], 1)


@pytest.mark.parametrize("header", [b"", b"Bearer x", b"Basic %%%", b"Basic \xe9", b"Basic Og=="])
async def test_without_basic_auth_it_is_20003(sandbox: RunningSandbox, http: httpx.AsyncClient, header: bytes) -> None:
    headers = {b"Authorization": header} if header else None
    response = await http.post(sandbox.sms_url + PATH, data=FORM, headers=headers)

    assert response.status_code == 401
    assert response.json()["code"] == 20003


async def test_with_an_account_in_the_settings_only_that_one_may_send(http: httpx.AsyncClient) -> None:
    async with running_sandbox(sms_account="AC123", sms_token="right") as sandbox:
        wrong = await http.post(sandbox.sms_url + PATH, data=FORM, auth=("AC123", "wrong"))
        right = await http.post(sandbox.sms_url + PATH, data=FORM, auth=("AC123", "right"))

    assert (wrong.status_code, right.status_code) == (401, 201)


async def test_each_request_is_another_message_whatever_its_headers(
    sandbox: RunningSandbox, http: httpx.AsyncClient
) -> None:
    headers = {"I-Twilio-Idempotency-Token": "a", "Idempotency-Key": "a", "X-Channel-Send-Id": "a"}
    answers = [await http.post(sandbox.sms_url + PATH, data=FORM, auth=LOGIN, headers=headers) for _ in range(2)]

    assert len({answer.json()["sid"] for answer in answers}) == 2
    assert sandbox.count(Channel.SMS).accepted == 2


async def test_the_senders_reference_is_the_key(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    for value in ("a", "b", "a"):
        await http.post(sandbox.sms_url + PATH, data=FORM, auth=LOGIN, headers={"X-Channel-Send-Id": value})

    assert sandbox.keys(Channel.SMS) == ["a", "b", "a"]


async def test_a_500_may_accept_the_message(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    await sandbox.set_faults(Channel.SMS, {"kind": "http", "status": 500, "accept": True})
    response = await http.post(sandbox.sms_url + PATH, data=FORM, auth=LOGIN)

    assert (response.status_code, sandbox.count(Channel.SMS).accepted) == (500, 1)


async def test_without_a_reference_number_and_text_are_the_key(
    sandbox: RunningSandbox, http: httpx.AsyncClient
) -> None:
    for to in ("+393331234567", "+393337654321"):
        await http.post(sandbox.sms_url + PATH, data=FORM | {"To": to}, auth=LOGIN)

    assert len(set(sandbox.keys(Channel.SMS))) == 2


async def test_another_path_gets_twilios_404(sandbox: RunningSandbox, http: httpx.AsyncClient) -> None:
    response = await http.post(sandbox.sms_url + "/2010-04-01/Nothing.json", auth=LOGIN)

    assert (response.status_code, response.json()["code"]) == (404, 20404)
